//! Reproduces the first steps of a run and compares them to the bit.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::config::load;
use crate::event::Event;
use crate::metrics_file::{FILE_NAME, MetricsLine, read};
use crate::run_folder::{CONFIG, RunFolder};
use crate::{Error, Result, RunOptions, train};

/// Options of [`verify`].
#[derive(Debug, Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Steps to reproduce, at most those of the run; default: 100.
    pub steps: u64,
    /// When this becomes true, the verification stops; default: never.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for VerifyOptions<'_> {
    fn default() -> Self {
        Self { steps: 100, stop: None }
    }
}

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Steps reproduced.
    pub steps: u64,
    /// Log lines compared.
    pub lines: usize,
    /// Checkpoints whose SHA-256 was compared.
    pub weights: usize,
    /// Differences in order: what, its value in the run, and its value now.
    pub differences: Vec<[String; 3]>,
}

/// Reproduces the first steps of a run, in a temporary folder inside the run folder.
pub fn verify(
    run: &Path,
    options: VerifyOptions<'_>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<VerifyReport> {
    let Some((_, origin)) = RunFolder::open(run)? else {
        return Err(Error::run(run, "not a run folder", "name a folder written by polyhead train"));
    };
    let recorded = read(&run.join(FILE_NAME))?;
    let done = recorded.iter().filter_map(MetricsLine::step).max().unwrap_or(0);
    let steps = options.steps.min(done);
    if steps == 0 {
        return Err(Error::run(run, "no steps in metrics.jsonl, expected some", "train it first"));
    }
    let first = recorded.iter().filter_map(MetricsLine::step).min().unwrap_or(0);
    if first > steps {
        let message =
            format!("the first line of metrics.jsonl is of step {first}, expected one of the first {steps}");
        return Err(Error::run(
            run,
            message,
            format!("nothing could be compared: use --steps {first} or more"),
        ));
    }
    let mut config = load(&run.join(CONFIG), &[])?;
    // The decay of the learning rate must not depend on the shorter run.
    config.schedule.total_steps = config.schedule.total_steps.or(Some(config.train.max_steps));
    config.train.max_steps = steps;
    (config.train.max_epochs, config.train.max_minutes) = (0, 0.0);
    let scratch = Scratch::inside(run)?;
    config.out.clone_from(&scratch.path);
    // Fewer if it was asked to stop.
    let steps = train(&config, RunOptions { stop: options.stop, ..RunOptions::default() }, on_event)?.step;
    let again = read(&scratch.path.join(FILE_NAME))?;
    let mut verified = compare(&recorded, &again, steps);
    if let Some((_, now)) = RunFolder::open(&scratch.path)? {
        for (was, now) in
            origin.train.iter().chain(&origin.tokenizer).zip(now.train.iter().chain(&now.tokenizer))
        {
            if !was.is_same_content(now) {
                let name = was.path.display().to_string();
                verified.differences.insert(0, [name, was.sha256.clone(), now.sha256.clone()]);
            }
        }
    }
    Ok(verified)
}

fn compare(recorded: &[MetricsLine], again: &[MetricsLine], steps: u64) -> VerifyReport {
    let mut verified = VerifyReport { steps, lines: 0, weights: 0, differences: Vec::new() };
    for was in recorded.iter().filter(|line| line.step().is_some_and(|step| step <= steps)) {
        let is_twin = |now: &&MetricsLine| {
            std::mem::discriminant(*now) == std::mem::discriminant(was) && now.step() == was.step()
        };
        let Some(now) = again.iter().find(is_twin) else { continue };
        verified.lines += 1;
        let mut check = |what: &str, was_value: String, now_value: String| {
            if was_value != now_value {
                let step = was.step().unwrap_or(0);
                verified.differences.push([format!("step {step}, {what}"), was_value, now_value]);
            }
        };
        match (was, now) {
            (MetricsLine::Train(was), MetricsLine::Train(now)) => {
                check("loss", was.loss.to_string(), now.loss.to_string());
                check("gradient norm", was.gradient_norm.to_string(), now.gradient_norm.to_string());
                check("learning rate", was.learning_rate.to_string(), now.learning_rate.to_string());
                check("target tokens", was.target_tokens.to_string(), now.target_tokens.to_string());
            }
            (MetricsLine::Valid(was), MetricsLine::Valid(now)) => {
                check("validation loss", was.loss.to_string(), now.loss.to_string());
                check("scores", format!("{:?}", was.scores), format!("{:?}", now.scores));
                if let (Some(was), Some(now)) = (&was.sha256, &now.sha256) {
                    check("SHA-256 of the weights", was.clone(), now.clone());
                    verified.weights += 1;
                }
            }
            _ => {}
        }
    }
    verified
}

/// A temporary folder, removed when dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn inside(run: &Path) -> Result<Self> {
        let path = run.join(format!(".verify.{}.tmp", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(|error| Error::io(&path, "remove", error))?;
        }
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes space.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
