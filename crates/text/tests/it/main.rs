//! The integration tests of `polyhead-text`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod encoder_tokenizers;
mod labels;
mod metrics;
mod sentencepiece;
mod subword_nmt;
mod tokenizer;
