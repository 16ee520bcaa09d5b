//! The integration tests of `polyhead-text`, one binary.

mod sentencepiece;
mod subword_nmt;
mod tokenizer;
