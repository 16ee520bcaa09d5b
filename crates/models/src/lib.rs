//! Attention models: ids in, ids out.
//!
//! 1. [`transformer`] is the encoder-decoder of *Attention Is All You Need* with its variations.
//! 2. [`decode`] chooses tokens one after the other; it sees a model only through [`decode::NextToken`].
//! 3. [`checkpoint`] is a model on disk; [`parity`] compares it with another implementation.

pub mod checkpoint;
pub mod decode;
pub mod error;
mod ids;
pub mod parity;
pub mod transformer;

pub use error::{Error, Result};
pub use ids::Ids;
