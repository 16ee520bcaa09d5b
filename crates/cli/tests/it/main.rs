//! Integration tests of the program `polyhead`: one module per command, all in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod score;
