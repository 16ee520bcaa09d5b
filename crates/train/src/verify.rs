//! Whether a run can be repeated: its first steps made again, and compared to the bit.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::config::load;
use crate::event::Event;
use crate::metrics_file::{FILE_NAME, Line, read};
use crate::run_folder::{CONFIG, RunFolder};
use crate::{Error, Result, RunOptions, train};

/// How a run is made again.
#[derive(Debug, Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Steps to make again; 100, or as many as the run has made.
    pub steps: u64,
    /// When this becomes true, the work is left; never.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for VerifyOptions<'_> {
    fn default() -> Self {
        Self { steps: 100, stop: None }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Steps made again.
    pub steps: u64,
    /// Lines of the record that both have.
    pub lines: usize,
    /// Weights whose sums were compared.
    pub weights: usize,
    /// Where they differ, the first first: what, in the run, and now.
    pub differences: Vec<[String; 3]>,
}

/// Makes the first steps of a run again, in a folder inside its own that is removed afterwards.
pub fn verify(run: &Path, options: VerifyOptions<'_>, tell: &mut dyn FnMut(&Event)) -> Result<Verified> {
    let Some((_, origin)) = RunFolder::open(run)? else {
        return Err(Error::run(
            run,
            "no run is there, expected a run folder",
            "name the folder that train wrote to",
        ));
    };
    let recorded = read(&run.join(FILE_NAME))?;
    let made = recorded.iter().filter_map(Line::step).max().unwrap_or(0);
    let steps = options.steps.min(made);
    if steps == 0 {
        return Err(Error::run(run, "no step in its record, expected some", "let it train first"));
    }
    let mut config = load(&run.join(CONFIG), &[])?;
    // What the rate falls to does not hang on where this ends.
    config.schedule.total_steps = config.schedule.total_steps.or(Some(config.train.max_steps));
    config.train.max_steps = steps;
    (config.train.max_epochs, config.train.max_minutes) = (0, 0.0);
    let scratch = Scratch::inside(run)?;
    config.out.clone_from(&scratch.path);
    // Asked to stop, it has made fewer.
    let steps = train(&config, RunOptions { stop: options.stop, ..RunOptions::default() }, tell)?.step;
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

fn compare(recorded: &[Line], again: &[Line], steps: u64) -> Verified {
    let mut verified = Verified { steps, lines: 0, weights: 0, differences: Vec::new() };
    for was in recorded.iter().filter(|line| line.step().is_some_and(|step| step <= steps)) {
        let is_twin = |now: &&Line| {
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
            (Line::Train(was), Line::Train(now)) => {
                check("loss", was.loss.to_string(), now.loss.to_string());
                check("gradient norm", was.gradient_norm.to_string(), now.gradient_norm.to_string());
                check("learning rate", was.learning_rate.to_string(), now.learning_rate.to_string());
                check("target tokens", was.target_tokens.to_string(), now.target_tokens.to_string());
            }
            (Line::Valid(was), Line::Valid(now)) => {
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

/// A folder that is removed in the end.
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
        // What cannot be removed only takes space.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
