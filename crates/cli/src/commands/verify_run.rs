//! `polyhead verify-run`: the first steps of a run once more, compared to the bit.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use polyhead_train::event::Event;
use polyhead_train::verify::{Verified, VerifyOptions, verify};

use crate::report::{Failure, note, print_text, progress, stop_when_interrupted, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead verify-run runs/en-de
  polyhead verify-run runs/en-de --steps 500 --threads 1

The run's own config is trained again in a folder inside the run's, tokeniser included, which is removed afterwards. Losses, gradient
norms, scores and the sums of the weights at each validation are compared, not rounded. Exit code 1 where they differ.";

/// Options of `polyhead verify-run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyRun {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Steps to make again
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Threads [default: all cores]; the result is the same for any number
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Becomes true when the program is asked to end.
static STOP: AtomicBool = AtomicBool::new(false);

/// Differences that are told.
const MOST_TOLD: usize = 5;

impl VerifyRun {
    pub(crate) fn run(self) -> Result<()> {
        stop_when_interrupted(&STOP);
        let bar = progress("steps");
        let mut tell = |event: &Event| {
            if let Event::Stepped(progress) = event {
                bar.set_position(progress.step);
            }
        };
        let options = VerifyOptions { steps: self.steps, stop: Some(&STOP) };
        let verified = thread_pool(self.threads)?.install(|| verify(&self.run, options, &mut tell));
        bar.finish_and_clear();
        let Verified { steps, lines, weights, differences } = verified?;
        if lines == 0 {
            note("no line of the record lies within these steps: ask for more with --steps");
        }
        for [what, was, now] in differences.iter().take(MOST_TOLD) {
            note(&format!("{what}: {was} in the run, {now} now"));
        }
        if let Some([first, ..]) = differences.first() {
            return Err(Failure {
                message: format!("{} of the compared numbers differ, the first: {first}", differences.len()),
                hint: "another machine, version or text gives other bits; run.json in the folder says what it was".into(),
            }
            .into());
        }
        print_text(&format!(
            "{steps} steps again: {lines} lines and {weights} sums of weights are the same to the bit\n"
        ))
    }
}
