//! Words before attention: word vectors and n-gram language models.
//!
//! 1. [`vectors`] trains word vectors (skip-gram, CBOW, subwords, GloVe), reads and writes the formats of other programs,
//!    compares words and draws nothing: pictures are `polyhead-inspect`'s.
//! 2. [`ngram`] counts n-grams and estimates language models.
//!
//! The law of this crate: text streams from disk, memory is bounded by what the caller allows, and the same text, options
//! and seed give the same bits on any number of threads and any instruction set. It has no tensors and no tape.

pub mod error;
pub mod ngram;
pub mod vectors;

pub use error::{Error, Result};
