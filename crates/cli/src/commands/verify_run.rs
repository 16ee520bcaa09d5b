//! `polyhead verify-run`: repeats the first steps of a run and compares them bit for bit.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use polyhead_train::event::Event;
use polyhead_train::verify::{VerifyOptions, VerifyReport, verify};

use crate::option_help::THREADS;
use crate::report::{Failure, counted, note, print_text, progress, stop_when_interrupted, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead verify-run runs/en-de
  polyhead verify-run runs/en-de --steps 500 --threads 1

The recipe of the run is trained again, tokeniser included, in a temporary folder inside the run folder. Losses, gradient norms, scores and checksums of the weights at each validation must be equal, without rounding. Exit code 1 if they differ.";

/// Options of `polyhead verify-run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyRun {
    /// Run folder
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Number of steps to repeat
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// Set by the first interrupt.
static STOP: AtomicBool = AtomicBool::new(false);

/// Maximum number of differences that are printed.
const MAX_DIFFERENCES: usize = 5;

impl VerifyRun {
    pub(crate) fn run(self) -> Result<()> {
        stop_when_interrupted(&STOP);
        let bar = progress("steps");
        let mut show = |event: &Event| {
            if let Event::Stepped(progress) = event {
                bar.set_position(progress.step);
            }
        };
        let options = VerifyOptions { steps: self.steps, stop: Some(&STOP) };
        let verified = thread_pool(self.threads)?.install(|| verify(&self.run, options, &mut show));
        bar.finish_and_clear();
        let VerifyReport { steps, lines, weights, differences } = verified?;
        for [what, was, now] in differences.iter().take(MAX_DIFFERENCES) {
            note(&format!("{what}: {was} in the run, {now} now"));
        }
        if let Some([first, ..]) = differences.first() {
            return Err(Failure {
                message: format!("values differ: {}, the first: {first}", differences.len()),
                hint: "another machine, version or corpus gives other bits; run.json in the run folder names them"
                    .into(),
            }
            .into());
        }
        print_text(&format!(
            "repeated {}: {} and {} are equal bit for bit\n",
            counted(steps, "step"),
            counted(lines as u64, "line"),
            counted(weights as u64, "weight checksum")
        ))
    }
}
