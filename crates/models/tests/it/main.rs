//! The integration tests of `polyhead-models`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod checkpoint;
mod decode;
mod latin2nqo;
mod laws;
mod outside;
