//! One file per command: its options, its help text and its run.

pub(crate) mod average;
pub(crate) mod bench;
pub(crate) mod caption;
pub(crate) mod classify;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod detect;
pub(crate) mod devices;
pub(crate) mod draw;
pub(crate) mod embed;
pub(crate) mod evaluate;
pub(crate) mod explore;
pub(crate) mod export;
pub(crate) mod fill;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod ngram;
pub(crate) mod parity;
pub(crate) mod perplexity;
pub(crate) mod plot;
pub(crate) mod point;
pub(crate) mod quantize;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod shortlist;
pub(crate) mod similar;
pub(crate) mod tag;
pub(crate) mod tokenizer;
pub(crate) mod train;
pub(crate) mod transcribe;
pub(crate) mod translate;
pub(crate) mod vectors;
pub(crate) mod verify_run;

use anyhow::Result;

use crate::arguments::{Arguments, Command};

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Average(average) => average.run(),
        Command::Bench(bench) => bench.run(),
        Command::Caption(caption) => caption.run(),
        Command::Classify(classify) => classify.run(),
        Command::Point(point) => point.run(),
        Command::Completions(completions) => completions.run(),
        Command::Data(data) => data.run(),
        Command::Detect(detect) => detect.run(),
        Command::Devices(devices) => devices.run(),
        Command::Draw(draw) => draw.run(),
        Command::Embed(embed) => embed.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Explore(explore) => explore.run(),
        Command::Export(export) => export.run(),
        Command::Fill(fill) => fill.run(),
        Command::Generate(generate) => generate.run(),
        Command::Import(import) => import.run(),
        Command::Info(info) => info.run(),
        Command::Init(init) => init.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Keys(keys) => keys.run(),
        Command::Man(man) => man.run(),
        Command::Models(models) => models.run(),
        Command::Ngram(ngram) => ngram.run(),
        Command::Parity(parity) => parity.run(),
        Command::Perplexity(perplexity) => perplexity.run(),
        Command::Plot(plot) => plot.run(),
        Command::Quantize(quantize) => quantize.run(),
        Command::Rerank(rerank) => rerank.run(),
        Command::Score(score) => score.run(),
        Command::Serve(serve) => serve.run(),
        Command::Search(search) => search.run(),
        Command::Shortlist(shortlist) => shortlist.run(),
        Command::Similar(similar) => similar.run(),
        Command::Tag(tag) => tag.run(),
        Command::Tokenizer(tokenizer) => tokenizer.run(),
        Command::Train(train) => train.run(),
        Command::Transcribe(transcribe) => transcribe.run(),
        Command::Translate(translate) => translate.run(),
        Command::Vectors(vectors) => vectors.run(),
        Command::VerifyRun(verify) => verify.run(),
    }
}
