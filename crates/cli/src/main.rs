//! The program `polyhead`: reads the arguments, runs one command, reports its error and chooses the exit code.

mod arguments;
mod commands;
mod corpus_options;
mod report;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    report::clean_up_when_interrupted();
    match commands::run(arguments::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::failure(&error),
    }
}
