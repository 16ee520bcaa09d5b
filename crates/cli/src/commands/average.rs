//! `polyhead average`: a model whose weights are the mean of several checkpoints.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions};
use polyhead_text::output::Output;
use polyhead_train::average::{Averaged, average};
use polyhead_train::checkpoint::Checkpoints;
use polyhead_train::metrics_file::{FILE_NAME, MetricsLine, ValidLine, read};

use crate::conversion::Folders;
use crate::decode_options::positive;
use crate::model_folder::file_name;
use crate::option_help::OVERWRITE_MODEL;
use crate::report::{Failure, Misuse, note};

const EXAMPLES: &str = "\
Examples:
  polyhead average runs/en-de --last 5 --out en-de-averaged
  polyhead average runs/en-de --best 3 --metric BLEU --out en-de-best
  polyhead average a/step-00004000 a/step-00005000 --out mean

With one run folder, the checkpoints that are still in it are averaged (see checkpoint.keep_last and keep_best in the recipe). Sums are computed in f64.";

/// Options of `polyhead average`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Average {
    /// Run folder, or checkpoint folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Average the newest N checkpoints of the run
    #[arg(long, value_name = "N", conflicts_with = "best", value_parser = positive)]
    last: Option<usize>,
    /// Average the N checkpoints of the run that are best by --metric
    #[arg(long, value_name = "N", value_parser = positive)]
    best: Option<usize>,
    /// Metric of --best: a score in metrics.jsonl, or loss [default: the first score, else loss]
    #[arg(long, value_name = "NAME", requires = "best")]
    metric: Option<String>,
    /// Model folder to write
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    #[arg(long, help = OVERWRITE_MODEL)]
    overwrite: bool,
}

impl Average {
    pub(crate) fn run(self) -> Result<()> {
        let folders = self.checkpoints()?;
        let target = Folders { from: folders[0].clone(), to: self.out.clone(), overwrite: self.overwrite };
        target.check()?;
        let Averaged { model, parameters } = average(&folders)?;
        let config = model.config();
        let layout = CheckpointLayout::fitting(&config);
        target.write(&config, &parameters, &SaveOptions { layout, ..SaveOptions::default() })?;
        let names: Vec<String> = folders.iter().map(|path| file_name(path)).collect();
        let text = format!("the mean of {}", names.join(", "));
        let readme = format!("# A model made of several checkpoints\n\nIts weights are {text}.\n");
        Output::save(self.out.join("README.md"), readme.as_bytes())?;
        note(&text);
        Ok(())
    }

    /// The checkpoint folders to average.
    fn checkpoints(&self) -> Result<Vec<PathBuf>> {
        let [run] = self.folders.as_slice() else { return self.several() };
        let checkpoints = Checkpoints::of_run(run);
        let steps = checkpoints.steps();
        if steps.is_empty() {
            return self.several();
        }
        let chosen = match (self.last, self.best) {
            (Some(last), _) => steps[steps.len().saturating_sub(last)..].to_vec(),
            (_, Some(best)) => best_steps(run, &steps, best, self.metric.as_deref())?,
            _ => steps,
        };
        if let Some(asked) =
            self.last.or(self.best).filter(|&asked| !chosen.is_empty() && asked > chosen.len())
        {
            let option = if self.last.is_some() { "--last" } else { "--best" };
            note(&format!("note: {option} {asked}, but the run has {}: all are averaged", chosen.len()));
        }
        if chosen.is_empty() {
            let message = format!("{}: no checkpoint with a validation, expected one or more", run.display());
            return Err(Failure { message, hint: "average the newest ones with --last".into() }.into());
        }
        Ok(chosen.into_iter().map(|step| checkpoints.path(step)).collect())
    }

    fn several(&self) -> Result<Vec<PathBuf>> {
        if self.last.is_some() || self.best.is_some() {
            return Err(Misuse {
                message: "--last and --best select checkpoints of a run, expected one run folder".into(),
                hint: "name the folder that polyhead train wrote".into(),
            }
            .into());
        }
        Ok(self.folders.clone())
    }
}

/// The `count` best validated steps, in ascending order.
fn best_steps(run: &Path, steps: &[u64], count: usize, metric: Option<&str>) -> Result<Vec<u64>> {
    let lines = read(&run.join(FILE_NAME))?;
    let valid: Vec<&ValidLine> = lines
        .iter()
        .filter_map(|line| if let MetricsLine::Valid(line) = line { Some(line) } else { None })
        .filter(|line| steps.contains(&line.step))
        .collect();
    let first = valid.iter().find_map(|line| line.scores.keys().next().cloned());
    let metric = metric.map(str::to_owned).or(first).unwrap_or_else(|| "loss".into());
    // For losses and error rates, lower is better.
    let merit = |line: &ValidLine| -> Option<f64> {
        match line.scores.get(&metric) {
            Some(score) if metric.ends_with("ER") => Some(-score),
            Some(score) => Some(*score),
            None => (metric == "loss").then_some(-line.loss),
        }
    };
    if valid.iter().any(|line| merit(line).is_none()) {
        let mut known: Vec<&str> =
            valid.iter().flat_map(|line| line.scores.keys().map(String::as_str)).collect();
        known.push("loss");
        known.sort_unstable();
        known.dedup();
        let message = format!("--metric {metric}, expected one of {}", known.join(", "));
        return Err(Misuse { message, hint: "the names are in metrics.jsonl of the run".into() }.into());
    }
    let mut sorted: Vec<(f64, u64)> =
        valid.iter().filter_map(|line| Some((merit(line)?, line.step))).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<u64> = sorted.into_iter().take(count).map(|(_, step)| step).collect();
    chosen.sort_unstable();
    Ok(chosen)
}
