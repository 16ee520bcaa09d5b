//! Integration tests of word vectors and n-gram models.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod glove;
mod ngram;
mod vector_files;
mod vectors;
