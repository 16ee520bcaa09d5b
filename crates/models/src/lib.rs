//! Attention models: ids in, ids out.
//!
//! 1. [`transformer`] is the encoder-decoder of *Attention Is All You Need* with its variations.

pub mod error;
pub mod transformer;

pub use error::{Error, Result};
