//! The integration tests of the program, one binary: each drives `polyhead` as a user would.

mod data;
mod program;
mod tidy;
mod tokenizer;
