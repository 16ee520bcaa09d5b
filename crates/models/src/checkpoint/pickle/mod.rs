//! PyTorch's files of weights (`pytorch_model.bin`, `.pt`), read without executing anything.
//!
//! torch.save writes a pickle, a program for a stack machine that builds objects, and the numbers beside it: in a zip archive
//! without compression, or since before version 1.6 in the same file. [`machine`](self) runs the program over a fixed set of
//! objects: dictionaries, lists, tuples, texts, numbers and tensors. A pickle may name any function of Python and have it called
//! while it is loaded; here everything but the few functions that rebuild tensors is refused by name.
//!
//! `archive.rs` finds files in a zip archive, `torch.rs` makes tensors of the objects.

mod archive;
mod machine;
mod torch;

use std::path::Path;

use crate::Result;
use crate::checkpoint::safetensors::Entry;

/// Tensors of a file of PyTorch; `None` if it is of another kind.
pub(in crate::checkpoint) fn entries(path: &Path, bytes: &[u8]) -> Result<Option<Vec<Entry>>> {
    if archive::is_archive(bytes) {
        return torch::of_archive(path, bytes).map(Some);
    }
    if torch::is_legacy(bytes) {
        return torch::of_legacy(path, bytes).map(Some);
    }
    Ok(None)
}
