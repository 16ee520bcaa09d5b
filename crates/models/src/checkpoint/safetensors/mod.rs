//! The safetensors format: eight bytes with the header's length, a JSON header with names, dtypes, shapes and offsets, then
//! the data, little-endian, in row-major order.
//!
//! Nothing in a file is trusted: every length, offset and shape is checked against the file before it is used, and no
//! allocation exceeds what the file's own size justifies.
//!
//! 1. [`header`](self) parses the header, [`TensorFile`] is one file, [`Weights`] a model in one file or in shards.
//! 2. [`write()`] writes them; the same tensors give the same bytes.

mod dtype;
mod file;
mod half;
mod header;
mod shards;
mod write;

pub use dtype::header_name;
pub(crate) use dtype::torch_name;
pub use file::TensorFile;
pub(in crate::checkpoint) use file::map;
pub(in crate::checkpoint) use header::Entry;
pub use shards::Weights;
pub use write::{Array, ArrayData, PendingFiles, WriteOptions, write};

/// An f16 number as f32, exactly.
pub(in crate::checkpoint) fn f16_to_f32(bytes: [u8; 2]) -> f32 {
    half::to_f32(u16::from_le_bytes(bytes))
}
