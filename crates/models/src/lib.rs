//! Attention models: ids in, ids out.
//!
//! 1. [`transformer`] is the encoder-decoder of *Attention Is All You Need* with its variations.
//! 2. [`checkpoint`] is a model on disk.

pub mod checkpoint;
pub mod error;
pub mod transformer;

pub use error::{Error, Result};
