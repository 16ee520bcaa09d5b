//! The command line as typed: one variant per command, each command's own options beside its code.

use clap::{Parser, Subcommand};

use crate::commands;

/// Trains, runs, serves and opens up attention models.
#[derive(Debug, Parser)]
#[command(name = "polyhead", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look after a parallel corpus: find faults, clean, measure
    #[command(subcommand)]
    Data(commands::data::Data),
    /// Train tokenisers and use them: text to ids and back
    #[command(subcommand)]
    Tokenizer(commands::tokenizer::Tokenizer),
    /// Look a corpus through and write a recipe for it
    Init(Box<commands::init::Init>),
    /// Train a model by a recipe, or go on with a run
    Train(Box<commands::train::Train>),
    /// Make one model of the mean of several checkpoints
    Average(commands::average::Average),
    /// Make the first steps of a run again and compare them to the bit
    VerifyRun(commands::verify_run::VerifyRun),
    /// Translate texts or lines with a model
    Translate(commands::translate::Translate),
    /// Tell what texts or lines are, with a model that was trained on labelled text
    Classify(commands::classify::Classify),
    /// Tell which language texts or lines are in
    Detect(commands::detect::Detect),
    /// Translate a test set and score the result
    Evaluate(commands::evaluate::Evaluate),
    /// Tell what a model is: sizes, parameters, memory, tokeniser
    Info(commands::info::Info),
    /// See how a model translates or classifies a text: attention, probabilities, search
    Inspect(Box<commands::inspect::Inspect>),
    /// Open a page in the browser: attention as it happens, heads to switch off, lessons
    Explore(commands::explore::Explore),
    /// Look after the API keys of a server: add, list, remove
    #[command(subcommand)]
    Keys(commands::keys::Keys),
    /// Serve translations over HTTP, to clients of LibreTranslate too
    Serve(Box<commands::serve::Serve>),
    /// Compare a model with what another program computed, layer by layer
    Parity(commands::parity::Parity),
    /// Bring a model of another program into our own form
    Import(commands::import::Import),
    /// Write a model in the form of another program
    Export(commands::export::Export),
    /// Make a model's matrices bytes: a quarter of the size, and faster
    Quantize(commands::quantize::Quantize),
    /// Draw losses, scores and learning rates of training runs
    Plot(commands::plot::Plot),
    /// Draw positions, learning-rate schedules and masks
    #[command(subcommand)]
    Draw(commands::draw::Draw),
    /// List where models can run: the processor and graphics cards
    Devices(commands::devices::Devices),
    /// Measure speed, one JSON line for each measurement
    #[command(subcommand)]
    Bench(commands::bench::Bench),
    /// Score translations: BLEU, chrF, TER and more, equal to sacreBLEU
    Score(commands::score::Score),
}
