//! The record of a run, `metrics.jsonl`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::metrics_file::{TrainLine, ValidLine};
use crate::{Error, Result};

/// The name of the file in a run folder.
pub(crate) const METRICS: &str = "metrics.jsonl";

/// Writes the record.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

/// A line with its kind.
#[derive(Serialize)]
struct Line<'a, T> {
    kind: &'static str,
    #[serde(flatten)]
    line: &'a T,
}

impl Log {
    /// Goes on after `step`: what a killed run wrote about later steps is taken back.
    pub(crate) fn open(run: &Path, step: u64) -> Result<Self> {
        let path = run.join(METRICS);
        if path.exists() {
            let text = std::fs::read_to_string(&path).map_err(|error| Error::io(&path, "read", error))?;
            let is_past = |line: &&str| {
                let parsed = serde_json::from_str::<Value>(line).ok();
                parsed.and_then(|line| line.get("step")?.as_u64()).is_some_and(|at| at <= step && step > 0)
            };
            let kept: String = text.lines().filter(is_past).map(|line| format!("{line}\n")).collect();
            polyhead_text::output::Output::save(&path, kept.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok(Self { file: file.map_err(|error| Error::io(&path, "write", error))?, path })
    }

    pub(crate) fn train(&mut self, line: &TrainLine) -> Result<()> {
        self.write("train", line)
    }

    pub(crate) fn valid(&mut self, line: &ValidLine) -> Result<()> {
        self.write("valid", line)
    }

    fn write(&mut self, kind: &'static str, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(&Line { kind, line }).expect("a line is always JSON");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|error| Error::io(&self.path, "write", error))
    }
}
