//! Integration tests of the attention crate: laws, PyTorch's answers, the lectures' worked examples.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod attend;
mod golden;
mod gradient;
mod recurrent;
mod score;
