//! The program `polyhead`: reads the arguments, runs one command, reports its error and chooses the exit code.

mod arguments;
mod commands;
mod conversion;
mod corpus_options;
mod decode_options;
mod default_model;
mod device_options;
mod input;
mod model_folder;
mod picture;
mod report;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report::misread(&error),
    };
    // A server has an end of its own.
    if !matches!(arguments.command, arguments::Command::Serve(_)) {
        report::clean_up_when_interrupted();
    }
    match commands::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::failure(&error),
    }
}
