//! The program `polyhead`: parses the arguments, runs one command, reports its error and chooses the exit code.

mod arguments;
mod bleu_tokenization;
mod choices;
mod commands;
mod compute_dtype;
mod compute_options;
mod conversion;
mod corpus_options;
mod decode_options;
mod default_model;
mod encoder_options;
mod environment;
mod input;
mod installed_models;
mod label_report;
mod line_progress;
mod locale;
mod model_folder;
mod old_options;
mod option_help;
mod output_format;
mod picture;
mod report;
mod vector_output;
mod window;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let start = Instant::now();
    let arguments = match arguments::Arguments::parse_process() {
        Ok(arguments) => arguments,
        Err(error) => return report::misread(&error),
    };
    match arguments.verbosity() {
        Ok(verbosity) => report::set_verbosity(verbosity),
        Err(misuse) => return report::failure(&misuse.into()),
    }
    // A server handles signals itself.
    if !matches!(arguments.command, arguments::Command::Serve(_)) {
        report::clean_up_when_interrupted();
    }
    match commands::run(arguments) {
        Ok(()) => {
            report::detail(|| format!("done in {:.2} s", start.elapsed().as_secs_f64()));
            ExitCode::SUCCESS
        }
        Err(error) => report::failure(&error),
    }
}
