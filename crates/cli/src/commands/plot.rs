//! `polyhead plot`: a picture of losses, scores and learning rates of training runs.

mod curves;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use polyhead_inspect::chart::{PictureOptions, stacked};
use polyhead_train::metrics_file;

use crate::picture::PictureFormat;
use crate::report::{Failure, note};
use curves::{Curves, PlottedRun, XAxis};

const EXAMPLES: &str = "\
Examples:
  polyhead plot runs/en-de
  polyhead plot runs/small runs/base --out compare.png
  polyhead plot runs/en-de --metric loss,gradient_norm,BLEU --across epoch

Reads metrics.jsonl in each run folder; the run may still be training. By default it plots the loss, all validation scores (or the perplexity if there are none) and the learning rate. Light lines show training, strong lines with dots show validation; the best point is circled. Several runs share each chart, one colour per run. Loss, perplexity and gradient norm have logarithmic axes.";

/// Options of `polyhead plot`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plot {
    /// Run folders
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Picture to write, .svg or .png [default: plot.svg in the run folder; for several runs, in the current folder]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Metrics, one chart each: loss, perplexity, learning_rate, gradient_norm, tokens_per_s, padding, or a score
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    metric: Vec<String>,
    /// Horizontal axis
    #[arg(long, value_enum, default_value_t = XAxis::Step)]
    across: XAxis,
    /// Window of the moving average of training curves, in points; 1 for none [default: a fiftieth of the points]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    smooth: Option<u64>,
}

impl Plot {
    pub(crate) fn run(self) -> Result<()> {
        let out = self.out.clone().unwrap_or_else(|| match &self.runs[..] {
            [run] => run.join("plot.svg"),
            _ => PathBuf::from("plot.svg"),
        });
        let format = PictureFormat::of_out(&out)?;
        let runs = named(&self.runs)
            .into_iter()
            .zip(&self.runs)
            .map(|(name, folder)| read(name, folder))
            .collect::<Result<Vec<PlottedRun>>>()?;
        let curves = Curves { runs: &runs, across: self.across, smooth: self.smooth.map(|n| n as usize) };
        let charts = curves.charts(&self.metric)?;
        let title = match &runs[..] {
            [run] => run.name.clone(),
            _ => String::new(),
        };
        let svg = stacked(&charts, &PictureOptions { title, ..PictureOptions::default() });
        format.save(&out, &svg)?;
        let count = charts.len();
        note(&format!("wrote {} ({count} chart{})", out.display(), if count == 1 { "" } else { "s" }));
        Ok(())
    }
}

/// Names of runs: those of their folders, or the paths where two folders have the same name.
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

fn read(name: String, folder: &Path) -> Result<PlottedRun> {
    let failure = |message: String, hint: &str| Failure { message, hint: hint.into() };
    if !folder.is_dir() {
        let found = if folder.exists() { "is a file" } else { "no such folder" };
        bail!(failure(
            format!("{}: {found}, expected a run folder", folder.display()),
            "check the spelling and the current folder"
        ));
    }
    let path = folder.join(metrics_file::FILE_NAME);
    if !path.exists() {
        bail!(failure(
            format!("{}: no {} found, expected a run folder", folder.display(), metrics_file::FILE_NAME),
            "polyhead train writes the file when the run starts"
        ));
    }
    let lines = metrics_file::read(&path)?;
    if lines.is_empty() {
        bail!(failure(
            format!("{}: no line of training or validation found, expected at least one", path.display()),
            "the first one is written after train.log_every steps"
        ));
    }
    Ok(PlottedRun::new(name, lines))
}
