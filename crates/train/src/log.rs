//! The logs of a run: `metrics.jsonl`, and event files for TensorBoard in `tensorboard/`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use polyhead_text::output::Output;

use crate::metrics_file::{FILE_NAME, MetricsLine, TrainLine, ValidLine, read_valid};
use crate::objective::ValidationSample;
use crate::tensorboard::EventWriter;
use crate::{Error, Result};

/// The folder of event files in a run folder.
const EVENTS: &str = "tensorboard";

/// Writer of both logs.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    events: EventWriter,
}

impl Log {
    /// Opens the logs after `step`; lines that a killed run wrote about later steps are removed, and so are damaged ones, which
    /// remain in `metrics.damaged.jsonl`.
    pub(crate) fn open(run: &Path, step: u64) -> Result<Self> {
        let path = run.join(FILE_NAME);
        if path.exists() {
            let (lines, n_invalid) = read_valid(&path)?;
            if n_invalid > 0 {
                // What is left out stays to be looked at.
                let damaged = path.with_extension("damaged.jsonl");
                std::fs::copy(&path, &damaged).map_err(|error| Error::io(&damaged, "write", error))?;
            }
            let past = lines.into_iter().filter(|line| line.step().is_some_and(|at| at <= step));
            let kept: String = past.map(|line| text(&line)).collect();
            Output::save(&path, kept.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| Error::io(&path, "write", error))?;
        let events = EventWriter::create(&run.join(EVENTS), now(), step + 1)?;
        Ok(Self { path, file, events })
    }

    pub(crate) fn train(&mut self, line: &TrainLine) -> Result<()> {
        for (tag, value) in [
            ("train/loss", line.loss),
            ("train/learning_rate", line.learning_rate),
            ("train/gradient_norm", line.gradient_norm),
            ("train/tokens_per_s", line.tokens_per_s),
        ] {
            self.events.scalar(tag, line.step, value, now())?;
        }
        self.write(&MetricsLine::Train(line.clone()))
    }

    pub(crate) fn valid(&mut self, line: &ValidLine, sample: Option<&ValidationSample>) -> Result<()> {
        self.events.scalar("valid/loss", line.step, line.loss, now())?;
        for (name, &score) in &line.scores {
            self.events.scalar(&format!("valid/{name}"), line.step, score, now())?;
        }
        if let Some(ValidationSample { source, reference, output }) = sample {
            let text = format!("source: {source}\n\nreference: {reference}\n\noutput: {output}");
            self.events.text("valid/sample", line.step, &text, now())?;
        }
        self.write(&MetricsLine::Valid(line.clone()))
    }

    fn write(&mut self, line: &MetricsLine) -> Result<()> {
        self.events.flush()?;
        let written = self.file.write_all(text(line).as_bytes());
        written.map_err(|error| Error::io(&self.path, "write", error))
    }
}

fn text(line: &MetricsLine) -> String {
    serde_json::to_string(line).expect("a line is always JSON") + "\n"
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
