//! The command line: global options, one variant per command, and the grouped help. Each command's own options are
//! beside its code.

use std::ffi::OsStr;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands;
use crate::old_options;
use crate::report::{Misuse, Verbosity};

/// Trains, runs, serves and inspects attention models
#[derive(Debug, Parser)]
#[command(name = "polyhead", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Print errors only: no progress, no notes
    #[arg(short, long, global = true, help_heading = "Global options")]
    quiet: bool,
    /// Also print what was loaded and how long it took
    #[arg(short, long, global = true, help_heading = "Global options")]
    verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Translate text, lines or documents
    Translate(commands::translate::Translate),
    /// Classify text with a trained classifier
    Classify(commands::classify::Classify),
    /// Continue prompts with a language model, or chat with it
    Generate(Box<commands::generate::Generate>),
    /// Write down what is said in WAV files
    Transcribe(commands::transcribe::Transcribe),
    /// Write captions of images
    Caption(commands::caption::Caption),
    /// Order points or numbers with a pointer network
    Point(commands::point::Point),
    /// Detect the language of text, or train a language identifier
    Detect(commands::detect::Detect),
    /// Turn texts into vectors
    Embed(commands::embed::Embed),
    /// Compare texts by their vectors
    Similar(commands::similar::Similar),
    /// Find the most similar of many texts
    #[command(subcommand)]
    Search(commands::search::Search),
    /// Order documents by their score for a query
    Rerank(commands::rerank::Rerank),
    /// Find names and other entities in text
    Tag(commands::tag::Tag),
    /// Fill masked words in text
    Fill(commands::fill::Fill),
    /// Translate a test set and score the result
    Evaluate(commands::evaluate::Evaluate),
    /// Measure how well a language model predicts a text
    Perplexity(commands::perplexity::PerplexityCommand),
    /// Score translations: BLEU, chrF, TER and more, equal to sacreBLEU
    Score(commands::score::Score),
    /// Write a training recipe for a corpus
    Init(Box<commands::init::Init>),
    /// Train a model from a recipe, or resume a run
    Train(Box<commands::train::Train>),
    /// Average the weights of several checkpoints
    Average(commands::average::Average),
    /// Repeat the first steps of a run and compare them bit for bit
    VerifyRun(commands::verify_run::VerifyRun),
    /// Plot losses, scores and learning rates of training runs
    Plot(commands::plot::Plot),
    /// Check, clean and measure a parallel corpus, or make training data
    #[command(subcommand)]
    Data(commands::data::Data),
    /// Train tokenisers, and encode and decode text with them
    #[command(subcommand)]
    Tokenizer(commands::tokenizer::Tokenizer),
    /// Train and use n-gram language models
    #[command(subcommand)]
    Ngram(commands::ngram::Ngram),
    /// Train word vectors, compare words, evaluate, draw and convert
    #[command(subcommand)]
    Vectors(commands::vectors::Vectors),
    /// Show attention, probabilities and search for one text
    Inspect(Box<commands::inspect::Inspect>),
    /// Explore a model's attention in the browser
    Explore(commands::explore::Explore),
    /// Draw position encodings, learning-rate schedules and masks
    #[command(subcommand)]
    Draw(commands::draw::Draw),
    /// Describe a model: architecture, parameters, memory, tokeniser
    Info(commands::info::Info),
    /// Compare a model with another implementation, layer by layer
    Parity(commands::parity::Parity),
    /// Serve models over HTTP, as LibreTranslate and OpenAI do
    Serve(Box<commands::serve::Serve>),
    /// Add, list and remove the API keys of a server
    #[command(subcommand)]
    Keys(commands::keys::Keys),
    /// Convert a model of another program: Hugging Face, llama.cpp
    Import(commands::import::Import),
    /// Convert a model to the layout of another program
    Export(commands::export::Export),
    /// Quantise a model's weights to int8
    Quantize(commands::quantize::Quantize),
    /// Train a lexical shortlist, which makes decoding faster
    #[command(subcommand)]
    Shortlist(commands::shortlist::Shortlist),
    /// Install, list and remove models in the user's data folder
    #[command(subcommand)]
    Models(commands::models::Models),
    /// List the CPU and the GPUs that models can run on
    Devices(commands::devices::Devices),
    /// Measure speed: matrix products, operations, training, decoding
    #[command(subcommand)]
    Bench(commands::bench::Bench),
    /// Print a completion script for a shell
    Completions(commands::completions::Completions),
    /// Print the manual page, or write one per command
    Man(commands::man::Man),
}

/// Commands by group, in the order in which `polyhead --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Use a model",
        &[
            "translate",
            "classify",
            "tag",
            "fill",
            "embed",
            "similar",
            "search",
            "rerank",
            "generate",
            "transcribe",
            "caption",
            "point",
            "detect",
            "evaluate",
            "perplexity",
            "score",
        ],
    ),
    ("Train", &["init", "train", "average", "verify-run", "plot"]),
    ("Data", &["data", "tokenizer"]),
    ("Words", &["ngram", "vectors"]),
    ("Inspect", &["inspect", "explore", "draw", "info", "parity"]),
    ("Serve", &["serve", "keys"]),
    ("Convert", &["import", "export", "quantize", "shortlist"]),
    ("Machine", &["models", "devices", "bench", "completions", "man"]),
];

impl Arguments {
    /// Parses the arguments of the process.
    pub(crate) fn parse_process() -> Result<Self, clap::Error> {
        let matches = old_options::answered(command()).try_get_matches()?;
        check_standard_input(&matches)?;
        Self::from_arg_matches(&matches)
    }

    /// The verbosity that `--quiet` and `--verbose` ask for.
    pub(crate) fn verbosity(&self) -> Result<Verbosity, Misuse> {
        match (self.quiet, self.verbose) {
            (true, true) => Err(Misuse {
                message: "--quiet and --verbose, expected one of them".into(),
                hint: "leave out one".into(),
            }),
            (true, false) => Ok(Verbosity::Quiet),
            (false, true) => Ok(Verbosity::Verbose),
            (false, false) => Ok(Verbosity::Normal),
        }
    }
}

/// The whole command line, with grouped help.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command();
    let heading = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let width = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut template = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        template += &format!("\n{heading}{group}:{heading:#}\n");
        for one in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) =
                (one.get_name(), one.get_about().map(ToString::to_string).unwrap_or_default());
            template += &format!("  {literal}{name:width$}{literal:#}  {about}\n");
        }
    }
    template += &format!("\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    command
        .help_template(template)
        .after_help("polyhead COMMAND --help shows the options and examples of a command.")
}

/// Refuses a command line that reads standard input twice: `-` for two files.
fn check_standard_input(matches: &clap::ArgMatches) -> Result<(), clap::Error> {
    let (mut own, mut matches) = (command(), matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = own.find_subcommand(name).cloned() else { return Ok(()) };
        (own, matches) = (found, below);
    }
    let mut named = Vec::new();
    for arg in own.get_arguments().filter(|arg| is_text_input(arg)) {
        let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let is_input = |value: &&OsStr| *value == "-" || value.to_string_lossy().ends_with("=-");
        let name = arg.get_long().map_or_else(|| "FILE".to_owned(), |long| format!("--{long}"));
        named.extend(values.filter(is_input).map(|_| name.clone()));
    }
    if named.len() < 2 {
        return Ok(());
    }
    let message = format!("standard input is read twice ({}), expected one `-`", named.join(" and "));
    Err(crate::choices::answer(&message, "name a file for all but one of them"))
}

/// True for an option or argument that names a file to read as text.
fn is_text_input(arg: &clap::Arg) -> bool {
    let is_file = |name: &clap::builder::Str| name.as_str().contains("FILE") || name.as_str() == "RECIPE|RUN";
    let is_output = |name: &str| name.starts_with("out") || name == "report";
    arg.get_value_names().unwrap_or_default().iter().any(is_file) && !arg.get_long().is_some_and(is_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands below `command`, itself included, with their paths.
    fn all(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let own = format!("{path} {}", command.get_name());
        let below = command.get_subcommands().flat_map(|one| all(one, &own));
        std::iter::once((own.clone(), command.clone())).chain(below).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        old_options::answered(command()).debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = command();
        let mut known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn every_command_has_examples_and_every_option_a_help_text() {
        for (path, command) in all(&command(), "") {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(path == " polyhead" || examples.starts_with("Examples:\n"), "{path} has no examples");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{path}: {} has no help", arg.get_id());
            }
        }
    }

    #[test]
    fn paragraphs_of_help_have_no_line_breaks_of_their_own() {
        for (path, command) in all(&command(), "") {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_prose =
                    |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                assert!(!(is_prose(pair[0]) && is_prose(pair[1])), "{path}: {pair:?}");
            }
            // Examples are not wrapped on a terminal of 80 columns.
            let long = lines.iter().find(|line| line.starts_with(' ') && line.chars().count() > 80);
            assert!(long.is_none(), "{path}: {long:?}");
        }
    }

    #[test]
    fn shared_options_have_one_help_text() {
        let shared = ["device", "dtype", "threads", "seed", "batch-tokens", "from", "to", "quiet", "verbose"];
        let mut texts: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        for (path, command) in all(&command(), "") {
            // The dtype of stored weights is not a compute dtype, and no model is trained in int8.
            let has_own_dtype = [" import", " export", " train"].iter().any(|own| path.ends_with(own));
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let name = arg.get_long().unwrap_or_default();
                if !shared.contains(&name) || (name == "dtype" && has_own_dtype) {
                    continue;
                }
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let help = help.split(" [default").next().unwrap_or_default().to_owned();
                let first = texts.entry(name.to_owned()).or_insert_with(|| help.clone());
                assert_eq!(*first, help, "{path} --{name}");
            }
        }
        assert_eq!(texts.len(), shared.len(), "{texts:?}");
    }

    #[test]
    fn short_options_mean_the_same_everywhere() {
        for (path, command) in all(&command(), "") {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let short = match arg.get_long().unwrap_or_default() {
                    "out" => 'o',
                    "model" => 'm',
                    "quiet" => 'q',
                    "verbose" => 'v',
                    _ => continue,
                };
                assert_eq!(arg.get_short(), Some(short), "{path} --{}", arg.get_long().unwrap_or_default());
            }
        }
    }

    #[test]
    fn only_one_file_can_be_standard_input() {
        let check = |arguments: &[&str]| {
            let matches = command().try_get_matches_from([&["polyhead"], arguments].concat()).unwrap();
            check_standard_input(&matches)
        };
        for twice in [
            &["score", "--reference", "-"][..],
            &["data", "check", "--source", "-", "--target", "-"],
            &["evaluate", "--source", "-", "--reference", "-"],
            &["translate", "--file", "-", "--shortlist", "-"],
            &["detect", "--out", "x", "--train", "en=-", "--train", "de=-"],
        ] {
            assert!(check(twice).is_err(), "{twice:?}");
        }
        for once in [
            &["score", "--reference", "-", "--hypothesis", "a"][..],
            &["data", "clean", "--tsv", "-", "--report", "-", "--out", "-"],
            &["translate", "--", "-", "-"],
        ] {
            assert!(check(once).is_ok(), "{once:?}");
        }
    }
}
