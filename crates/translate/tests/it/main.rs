//! The integration tests of `polyhead-translate`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod documents;
mod folders;
mod invariance;
mod lexical;
mod outside;
mod preserved;
mod quantities;
mod routes;
mod shortlist;
mod texts;

use std::path::{Path, PathBuf};

use polyhead_translate::{Engine, LoadOptions};

/// A small model like those of OPUS-MT, written by Hugging Face's code.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn engine() -> Engine {
    Engine::load(golden(), &LoadOptions::default()).unwrap()
}

/// Sentences that the model was trained on, and others.
const SENTENCES: &[&str] = &[
    "The teacher reads a book today.",
    "Nobody slept well!",
    "Mr. Çelik paid 250 lira at 10:45.",
    "My brother drinks cold water in Istanbul every morning?",
    "Ayşe",
    "behind the house behind the house behind the house behind the house",
    "xqzwv",
    "The old doctor is waiting for the train near the river since 1987.",
    "THE OLD DOCTOR",
];
