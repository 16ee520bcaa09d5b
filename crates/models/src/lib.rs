//! Attention models: ids in, ids out.
//!
//! 1. [`transformer`] is the encoder-decoder of *Attention Is All You Need* with its variations.
//! 2. [`decode`] chooses tokens one after the other; it sees a model only through [`decode::NextToken`].

pub mod decode;
pub mod error;
mod ids;
pub mod transformer;

pub use error::{Error, Result};
pub use ids::Ids;
