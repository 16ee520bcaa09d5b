//! One file per command; each holds its options, its help text and its run.

pub(crate) mod score;

use anyhow::Result;

use crate::arguments::{Arguments, Command};

/// Runs the command that was asked for.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Score(score) => score.run(),
    }
}
