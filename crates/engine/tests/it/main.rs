//! The integration tests of the crate, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod chat;
mod encoders;
mod generate;
mod images;
mod perplexity;
mod speech;
mod tokenizers;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use polyhead_engine::{Generator, LoadOptions};
use serde_json::Value;

/// The folder of golden files.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The answers of transformers.
fn answers() -> Value {
    let file = std::fs::File::open(golden().join("answers.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn load(folder: impl AsRef<Path>) -> Generator {
    Generator::load(folder, &LoadOptions::default()).unwrap()
}

/// A copy of a golden model with other files, such as `generation_config.json`; `None` leaves a file out.
fn changed(model: &str, files: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden().join(model)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    for (name, text) in files {
        match text {
            Some(text) => std::fs::write(folder.path().join(name), text).unwrap(),
            None => std::fs::remove_file(folder.path().join(name)).unwrap(),
        }
    }
    folder
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
