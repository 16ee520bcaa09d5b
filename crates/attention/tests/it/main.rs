//! The integration tests of `polyhead-attention`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod laws;
mod outside;
