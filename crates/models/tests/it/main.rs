//! The integration tests of `polyhead-models`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod captions;
mod checkpoint;
mod copying;
mod cuda;
mod decode;
mod encoders;
mod families;
#[cfg(feature = "cuda")]
mod gpu_gradients;
mod images;
mod intervention;
mod language_models;
mod latin2nqo;
mod laws;
mod outside;
mod pickle;
mod pointer;
mod recurrent;
mod single_files;
mod sources;
