//! The integration tests of `polyhead-text`, one binary.

mod tokenizer;
