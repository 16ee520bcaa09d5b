//! One file per command; each holds its options, its help text and its run.

pub(crate) mod bench;
pub(crate) mod data;
pub(crate) mod score;
pub(crate) mod tokenizer;

use anyhow::Result;

use crate::arguments::{Arguments, Command};

/// Runs the command that was asked for.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Bench(bench) => bench.run(),
        Command::Data(data) => data.run(),
        Command::Tokenizer(tokenizer) => tokenizer.run(),
        Command::Score(score) => score.run(),
    }
}
