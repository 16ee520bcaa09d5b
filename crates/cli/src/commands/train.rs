//! `polyhead train`: trains a model from a recipe, or resumes a run.

mod view;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use polyhead_train::config::{self, Override, RunConfig};
use polyhead_train::event::Ending;
use polyhead_train::{RunOptions, RunOutcome, Start, train};

use self::view::View;
pub(crate) use self::view::steps_text;
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::input::{STANDARD_INPUT, read_bytes};
use crate::option_help::{DEVICE, THREADS, TRAINING_DTYPE, with_default};
use crate::report::{Failure, note, print_text, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead init --source train.en --target train.de --out en-de.toml
  polyhead train en-de.toml
  polyhead train en-de.toml --set model.preset=tiny --out runs/tiny
  polyhead train runs/en-de --resume
  polyhead train en-de.toml --device cuda --dtype bf16
  polyhead train en-de.toml --dump-config

The run folder has the resolved recipe, the tokeniser, metrics.jsonl, TensorBoard events, checkpoints and, at the end, the finished model in model/. With checkpoint.final = \"compare\", the default, the finished model is the best on the validation set of the best checkpoint, the last one and averages of several. Ctrl-C finishes the step, saves a checkpoint and prints how to resume the run and how to use the checkpoint; --model RUN takes a run folder in every command. Steps and limits count from the beginning of the run, also after a resume. The same recipe and corpus give the same weights bit for bit, with any number of threads, interrupted or not.";

/// Options of `polyhead train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Train {
    /// Recipe to train, or run folder to resume; - is standard input
    #[arg(value_name = "RECIPE|RUN")]
    recipe: PathBuf,
    /// Change a key of the recipe; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Run folder to write [default: `out` of the recipe]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Resume the run in the run folder
    #[arg(long)]
    resume: bool,
    /// Save a checkpoint and stop after N minutes; --resume continues
    #[arg(long, value_name = "N")]
    max_minutes: Option<f64>,
    /// Print the resolved recipe and exit
    #[arg(long)]
    dump_config: bool,
    #[arg(long, value_name = "NAME", value_parser = device_name, help_heading = "Compute",
          help = with_default(DEVICE, "`train.device` of the recipe"))]
    device: Option<String>,
    #[arg(long, value_name = "DTYPE", value_parser = ComputeDtype::TRAINING, help_heading = "Compute",
          help = with_default(TRAINING_DTYPE, "`train.dtype` of the recipe"))]
    dtype: Option<ComputeDtype>,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// Set by the first interrupt.
static STOP: AtomicBool = AtomicBool::new(false);

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        let mut config = self.config()?;
        // The recipe of a run folder that was moved names the old folder.
        let named = self.recipe.is_dir().then(|| self.recipe.clone());
        if let Some(out) = self.out.clone().or(named) {
            config.out = out;
        }
        if let Some(device) = &self.device {
            config.train.device.clone_from(device);
            // The dtype in the recipe of a run was chosen for its old device.
            config.train.dtype = None;
        }
        if let Some(dtype) = self.dtype.and_then(ComputeDtype::training) {
            config.train.dtype = Some(dtype);
        }
        if self.dump_config {
            return print_text(&config::dump(&config));
        }
        crate::report::stop_when_interrupted(&STOP);
        let pool = thread_pool(self.threads)?;
        let start = if self.resume { Start::Resume } else { Start::New };
        let options = RunOptions { start, max_minutes: self.max_minutes, stop: Some(&STOP) };
        let mut view = View::new();
        let outcome = pool.install(|| train(&config, options, &mut |event| view.show(event)));
        view.close();
        report_end(&outcome?, &config);
        Ok(())
    }

    /// The recipe: of a file, of a run folder, or of standard input with paths relative to the current folder.
    fn config(&self) -> Result<RunConfig> {
        if self.recipe == Path::new("-") {
            let text = String::from_utf8(read_bytes(&self.recipe)?).map_err(|error| {
                let byte = error.utf8_error().valid_up_to() + 1;
                let message = format!("{STANDARD_INPUT}: invalid UTF-8 at byte {byte}, expected a recipe");
                Failure { message, hint: "a recipe is a TOML file".into() }
            })?;
            return Ok(config::parse(&text, STANDARD_INPUT, Path::new(""), &self.set)?);
        }
        let file = if self.recipe.is_dir() { self.recipe.join("config.toml") } else { self.recipe.clone() };
        Ok(config::load(&file, &self.set)?)
    }
}

fn report_end(outcome: &RunOutcome, config: &RunConfig) {
    let out = &config.out;
    let RunOutcome { ending, step, seconds, .. } = outcome;
    let (minutes, command, input) = (seconds / 60.0, config.task.command(), config.task.input());
    let reason = match ending {
        Ending::Steps => "train.max_steps reached",
        Ending::Epochs => "train.max_epochs reached",
        Ending::Time => "train.max_minutes reached",
        Ending::Patience => "no better validation within validation.patience",
        Ending::Stopped => "interrupted",
        Ending::Paused => "--max-minutes reached",
    };
    note(&format!("stopped at step {step} after {minutes:.1} minutes of training: {reason}"));
    if matches!(ending, Ending::Stopped | Ending::Paused) {
        note(&format!("resume with: polyhead train {} --resume", out.display()));
        note(&format!(
            "use the newest checkpoint with: polyhead {command} --model {} {input}",
            out.display()
        ));
    } else {
        note(&format!("use it with: polyhead {command} --model {} {input}", out.display()));
    }
}
