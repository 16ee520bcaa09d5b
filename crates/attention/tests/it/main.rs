//! The integration tests of `polyhead-attention`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod attend;
mod golden;
mod gradient;
mod laws;
mod outside;
mod pooling;
mod recurrent;
mod score;
