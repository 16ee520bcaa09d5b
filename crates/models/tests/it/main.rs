//! The integration tests of `polyhead-models`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[cfg(feature = "cuda")]
mod card_gradients;
mod checkpoint;
mod cuda;
mod decode;
mod families;
mod intervention;
mod latin2nqo;
mod laws;
mod outside;
