//! The integration tests of `polyhead-inspect`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod charts;
mod encoder;
mod export;
mod outside;
mod text;
mod trace;

use std::path::{Path, PathBuf};

use polyhead_translate::{Engine, LoadOptions};

/// The folder of a small model written by Hugging Face's code.
fn model_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden").join(name)
}

/// A model with tokenisers like those of OPUS-MT.
fn engine() -> Engine {
    Engine::load(model_folder("opus"), &LoadOptions::default()).unwrap()
}
