//! Files of named arrays in the safetensors form: eight bytes with the header's length, a JSON header with names, types,
//! shapes and places, then the numbers, little-endian, row after row.
//!
//! Nothing in a file is trusted: every length, place and shape is checked against the file before it is used, and no
//! memory is asked for that the file's own size does not justify.
//!
//! 1. [`header`](self) knows what is where, [`TensorFile`] is one file, [`Weights`] a model in one file or in shards.
//! 2. [`write()`] makes them; the same arrays give the same bytes.

mod dtype;
mod file;
mod half;
mod header;
mod shards;
mod write;

pub use dtype::Dtype;
pub use file::TensorFile;
pub use shards::Weights;
pub use write::{Array, Numbers, Unfinished, WriteOptions, write};
