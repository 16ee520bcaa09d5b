//! The integration tests of this crate, one binary.

mod sentencepiece;
mod subword_nmt;
