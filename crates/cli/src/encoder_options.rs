//! Options of the commands that use an encoder, and the texts that they read.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_engine::{LoadOptions, LongTexts};
use polyhead_tensor::{Device, Parameters};

use crate::compute_options::ComputeOptions;
use crate::input::{ChunkFill, Chunks, InputLine, shown};
use crate::line_progress::LineProgress;
use crate::report::{Failure, Misuse, note};

/// Lines that are read at once: enough for batches of texts of the same length.
const LINES: usize = 4096;

/// Options of a command that uses an encoder.
#[derive(Debug, Args)]
pub(crate) struct EncoderOptions {
    /// Cut off the end of texts that are too long for the model, with a note [default: they are errors]
    #[arg(long)]
    truncate: bool,
    #[command(flatten)]
    compute: ComputeOptions,
}

impl EncoderOptions {
    /// What happens to texts that are too long.
    pub(crate) fn long(&self) -> LongTexts {
        if self.truncate { LongTexts::Truncate } else { LongTexts::Refuse }
    }

    /// Loads a model and works with it, on the threads and the device that the options name.
    pub(crate) fn with_model<M: Send + Sync>(
        &self,
        model: &Path,
        load: impl FnOnce(&Path, &LoadOptions) -> polyhead_engine::Result<M> + Send,
        work: impl FnOnce(&M) -> Result<()> + Send,
    ) -> Result<()> {
        self.compute.with_model(model, load, work)
    }
}

/// Texts of the command line, or lines of a file.
#[derive(Debug, Args)]
pub(crate) struct TextInputs {
    /// Texts [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// File with a text on each line, plain or gzip; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) file: Option<PathBuf>,
}

impl TextInputs {
    /// Hands the texts to `work` in chunks, each with the number of its first text from 1, and shows progress.
    pub(crate) fn for_each_chunk(
        &self,
        parameters: &Parameters,
        mut work: impl FnMut(&[&str], usize) -> Result<()>,
    ) -> Result<()> {
        if !self.texts.is_empty() {
            return work(&self.texts.iter().map(String::as_str).collect::<Vec<_>>(), 1);
        }
        let path = self.file.as_deref().unwrap_or_else(|| Path::new("-"));
        let fill = fill(path, &parameters.device());
        let mut progress = LineProgress::new(None);
        let mut first = 1;
        for chunk in Chunks::open(path, LINES, fill)? {
            let texts: Vec<String> = chunk?.into_iter().map(InputLine::into_text).collect();
            work(&texts.iter().map(String::as_str).collect::<Vec<_>>(), first)?;
            first += texts.len();
            progress.add(texts.len() as u64, 0);
        }
        progress.finish();
        Ok(())
    }

    /// All texts.
    pub(crate) fn all(&self) -> Result<Vec<String>> {
        if !self.texts.is_empty() {
            return Ok(self.texts.clone());
        }
        let path = self.file.as_deref().unwrap_or_else(|| Path::new("-"));
        let mut all = Vec::new();
        for chunk in Chunks::open(path, LINES, ChunkFill::Full)? {
            all.extend(chunk?.into_iter().map(InputLine::into_text));
        }
        if all.is_empty() {
            let message = format!("{}: no texts, expected at least one", shown(path).display());
            return Err(
                Misuse { message, hint: "name texts, or a file with a text on each line".into() }.into()
            );
        }
        Ok(all)
    }
}

/// A file is there as a whole, so that chunks are full; standard input may be typed.
fn fill(path: &Path, device: &Device) -> ChunkFill {
    if path == Path::new("-") { ChunkFill::for_device(device) } else { ChunkFill::Full }
}

/// The result of text `number`, or an error that names the text; prints a note if its end was cut off.
pub(crate) fn taken<T>(
    found: polyhead_engine::Result<T>,
    number: usize,
    cut_from: impl Fn(&T) -> Option<usize>,
    max_len: usize,
) -> Result<T> {
    let found =
        found.map_err(|error| Failure { message: format!("text {number}: {error}"), hint: error.hint() })?;
    if let Some(length) = cut_from(&found) {
        note(&format!("note: text {number}: {length} tokens, cut to {max_len}"));
    }
    Ok(found)
}
