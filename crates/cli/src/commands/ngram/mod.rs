//! `polyhead ngram`: train n-gram language models, and score, generate and convert with them.

mod train;
mod use_model;

use anyhow::Result;
use clap::Subcommand;

pub(crate) use use_model::score_lines;

const EXAMPLES: &str = "\
Examples:
  polyhead ngram train --order 3 --out en.ngram train.en
  polyhead ngram train --order 6 --characters -o letters.arpa shakespeare.txt
  polyhead ngram perplexity --model en.ngram test.en
  polyhead ngram generate --model en.ngram 'the house is'
  polyhead ngram convert en.arpa en.ngram
  polyhead ngram info en.ngram

A file that ends with .arpa is text in the format of other programs; every other name is a binary file, which is mapped into memory: it is ready at once and is read as needed.";

/// Subcommands of `polyhead ngram`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Ngram {
    /// Train a model with modified Kneser–Ney smoothing
    Train(train::NgramTraining),
    /// Measure the perplexity of a text
    Perplexity(use_model::Perplexity),
    /// Draw text from a model
    Generate(use_model::NgramGenerate),
    /// Convert between ARPA and binary files
    Convert(use_model::NgramConvert),
    /// Describe a model
    Info(use_model::NgramInfo),
}

impl Ngram {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Train(train) => train.run(),
            Self::Perplexity(perplexity) => perplexity.run(),
            Self::Generate(generate) => generate.run(),
            Self::Convert(convert) => convert.run(),
            Self::Info(info) => info.run(),
        }
    }
}
