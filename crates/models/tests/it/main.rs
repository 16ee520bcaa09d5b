//! The integration tests of `polyhead-models`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod checkpoint;
mod cuda;
mod decode;
mod families;
#[cfg(feature = "cuda")]
mod gpu_gradients;
mod intervention;
mod latin2nqo;
mod laws;
mod outside;
mod pointer;
mod recurrent;
