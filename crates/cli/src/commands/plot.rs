//! `polyhead plot`: losses, scores and learning rates of training runs as a picture.

mod curves;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use polyhead_inspect::chart::{PictureOptions, stacked};
use polyhead_train::metrics_file;

use crate::picture::Form;
use crate::report::{Failure, note};
use curves::{Across, Curves, Run};

const EXAMPLES: &str = "Examples:
  polyhead plot runs/en-de
  polyhead plot runs/small runs/base --out compare.png
  polyhead plot runs/en-de --metric loss,gradient_norm,BLEU --across epoch --out curves.svg

Read is metrics.jsonl in each folder, also while the run goes on. Drawn are, unless --metric says otherwise, the loss, every
score of the validations (or the perplexity where none was taken) and the learning rate. A light line is training, a
strong line with dots is validation, with its best point ringed. Several runs share each chart, in colours of their own.
Loss, perplexity and gradient norm stand on logarithmic axes.";

/// Options of `polyhead plot`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plot {
    /// Folders of training runs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The picture, .svg or .png [default: plot.svg in the run's folder; of several runs, in the current one]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What to draw, one chart each: loss, perplexity, learning_rate, gradient_norm, tokens_per_s, padding, or a score
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,
    /// What is counted from left to right
    #[arg(long, value_enum, default_value_t = Across::Step)]
    across: Across,
    /// Lines of training that are averaged into each point; 1 for none [default: a fiftieth of all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    smooth: Option<u64>,
}

impl Plot {
    pub(crate) fn run(self) -> Result<()> {
        let out = self.out.clone().unwrap_or_else(|| match &self.runs[..] {
            [run] => run.join("plot.svg"),
            _ => PathBuf::from("plot.svg"),
        });
        let form = Form::of_out(&out)?;
        let runs = named(&self.runs)
            .into_iter()
            .zip(&self.runs)
            .map(|(name, folder)| read(name, folder))
            .collect::<Result<Vec<Run>>>()?;
        let curves = Curves { runs: &runs, across: self.across, smooth: self.smooth.map(|n| n as usize) };
        let charts = curves.charts(&self.metric)?;
        let title = match &runs[..] {
            [run] => run.name.clone(),
            _ => String::new(),
        };
        let svg = stacked(&charts, &PictureOptions { title, ..PictureOptions::default() });
        form.save(&out, &svg)?;
        let count = charts.len();
        note(&format!("wrote {} ({count} chart{})", out.display(), if count == 1 { "" } else { "s" }));
        Ok(())
    }
}

/// Names of runs: their folders' own, or the paths as given where two folders are called the same.
fn named(folders: &[PathBuf]) -> Vec<String> {
    let own = |folder: &PathBuf| {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        whole
            .file_name()
            .map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let names: Vec<String> = folders.iter().map(own).collect();
    let is_shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let name = |(name, folder): (&String, &PathBuf)| {
        if is_shared(name) { folder.display().to_string() } else { name.clone() }
    };
    names.iter().zip(folders).map(name).collect()
}

fn read(name: String, folder: &Path) -> Result<Run> {
    let failure = |message: String, hint: &str| Failure { message, hint: hint.into() };
    if !folder.is_dir() {
        let found = if folder.exists() { "is a file" } else { "no such folder" };
        bail!(failure(
            format!("{}: {found}, expected the folder of a training run", folder.display()),
            "check the spelling and the current folder"
        ));
    }
    let path = folder.join(metrics_file::FILE_NAME);
    if !path.exists() {
        bail!(failure(
            format!(
                "{}: no {} found, expected the folder of a training run",
                folder.display(),
                metrics_file::FILE_NAME
            ),
            "a run writes the file when it starts; is this another kind of folder?"
        ));
    }
    let lines = metrics_file::read(&path)?;
    if lines.is_empty() {
        bail!(failure(
            format!("{}: no line of training or validation found, expected at least one", path.display()),
            "the first line comes with the first report of the run"
        ));
    }
    Ok(Run::new(name, lines))
}
