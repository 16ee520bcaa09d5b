//! `polyhead train`: from a recipe to a model, or on from where a run stopped.

mod view;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use polyhead_train::config::{self, Dtype, Override, RunConfig};
use polyhead_train::event::Ending;
use polyhead_train::{Outcome, RunOptions, Start, Task, train};

use self::view::View;
use crate::device_options::{CardDtype, device_name};
use crate::report::{note, print_text, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead init --source train.en --target train.de --out en-de.toml
  polyhead train en-de.toml
  polyhead train en-de.toml --set train.max_epochs=30 --set model.preset=tiny --out runs/tiny
  polyhead train runs/en-de --resume
  polyhead train en-de.toml --device cuda --dtype bf16
  polyhead train en-de.toml --dump-config

The run folder holds the resolved config, the tokeniser, metrics.jsonl, TensorBoard events, checkpoints, and at the end the
finished model in model/. Ctrl-C finishes the step, saves and prints how to go on. Steps are absolute: a resumed run counts
on from where it stopped, and its limits count from the beginning. The same config and text give the same weights to the
bit, on any number of threads, interrupted or not.";

/// Options of `polyhead train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Train {
    /// A recipe, or the folder of a run
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Change a key of the recipe; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// The run folder [default: `out` of the recipe]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in the folder
    #[arg(long)]
    resume: bool,
    /// Save and leave after so many minutes; --resume goes on
    #[arg(long, value_name = "N")]
    max_minutes: Option<f64>,
    /// Where to train: auto, cpu or cuda:0 [default: `train.device` of the recipe, auto there]
    #[arg(long, value_name = "NAME", value_parser = device_name)]
    device: Option<String>,
    /// Numbers to compute with [default: `train.dtype` of the recipe: bf16 on a card, f32 on the processor]
    #[arg(long, value_enum)]
    dtype: Option<CardDtype>,
    /// Print the resolved config and do nothing
    #[arg(long)]
    dump_config: bool,
    /// Threads [default: all cores]; the result is the same for any number
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Becomes true when the program is asked to end.
static STOP: AtomicBool = AtomicBool::new(false);

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        let file = if self.config.is_dir() { self.config.join("config.toml") } else { self.config.clone() };
        let mut config = config::load(&file, &self.set)?;
        // A run folder that was moved or copied still says in its config where it was.
        let named = self.config.is_dir().then(|| self.config.clone());
        if let Some(out) = self.out.clone().or(named) {
            config.out = out;
        }
        if let Some(device) = &self.device {
            config.train.device.clone_from(device);
            // What the run before chose belongs to the device before.
            config.train.dtype = Dtype::Auto;
        }
        if let Some(dtype) = self.dtype {
            config.train.dtype = dtype.into();
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
        tell(&outcome?, &config);
        Ok(())
    }
}

fn tell(outcome: &Outcome, config: &RunConfig) {
    let out = &config.out;
    let Outcome { ending, step, seconds, .. } = outcome;
    let minutes = seconds / 60.0;
    let why = match ending {
        Ending::Steps => "train.max_steps is reached",
        Ending::Epochs => "train.max_epochs is reached",
        Ending::Time => "train.max_minutes is reached",
        Ending::Patience => "no validation was better for validation.patience times",
        Ending::Stopped => "asked to stop",
        Ending::Paused => "--max-minutes is over",
    };
    note(&format!("ended at step {step} after {minutes:.1} minutes of training: {why}"));
    if matches!(ending, Ending::Stopped | Ending::Paused) {
        note(&format!("go on with: polyhead train {} --resume", out.display()));
    } else {
        let command = Task::of(&config.model).command();
        note(&format!("use it with: polyhead {command} --model {} < TEXT", out.join("model").display()));
    }
}
