//! The integration tests of the training crate, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod captions;
mod embeddings;
mod encoder_tasks;
mod events;
mod families;
mod fine_tuning;
mod finish;
mod gpu;
mod images;
mod labels;
mod languages;
mod repeat;
mod tagging;
mod toy;
mod trouble;
