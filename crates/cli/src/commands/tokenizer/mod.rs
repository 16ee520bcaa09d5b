//! `polyhead tokenizer`: train tokenisers, and encode and decode text with them.

mod encode;
mod info;
mod train;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_text::tokenizer::Tokenizer as AnyTokenizer;

use crate::report::Misuse;

const EXAMPLES: &str = "\
Examples:
  polyhead tokenizer train -i train.en -i train.de --out tokenizer.json
  polyhead tokenizer encode -t tokenizer.json --format ids train.en
  polyhead tokenizer decode -t tokenizer.json train.ids
  polyhead tokenizer info -t tokenizer.json";

/// Subcommands of `polyhead tokenizer`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Tokenizer {
    /// Train a tokeniser on raw text
    Train(train::TokenizerTraining),
    /// Encode text into tokens or ids
    Encode(encode::Encode),
    /// Decode ids into text
    Decode(encode::Decode),
    /// Describe a tokeniser
    Info(info::TokenizerInfo),
}

impl Tokenizer {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Train(train) => train.run(),
            Self::Encode(encode) => encode.run(),
            Self::Decode(decode) => decode.run(),
            Self::Info(info) => info.run(),
        }
    }
}

/// The options that name a tokeniser.
#[derive(Debug, Args)]
struct TokenizerOptions {
    /// Tokeniser: tokenizer.json, a SentencePiece .spm or .model file, or a model folder
    #[arg(long, short, value_name = "PATH", conflicts_with_all = ["codes", "dictionary"])]
    tokenizer: Option<PathBuf>,
    /// subword-nmt codes (with --dictionary)
    #[arg(long, value_name = "FILE", requires = "dictionary")]
    codes: Option<PathBuf>,
    /// fairseq dictionary (with --codes)
    #[arg(long, value_name = "FILE", requires = "codes")]
    dictionary: Option<PathBuf>,
}

impl TokenizerOptions {
    fn load(&self) -> Result<AnyTokenizer> {
        match (&self.tokenizer, &self.codes, &self.dictionary) {
            (Some(path), ..) => Ok(AnyTokenizer::load(path)?),
            (None, Some(codes), Some(dictionary)) => Ok(AnyTokenizer::load_fairseq(codes, dictionary)?),
            _ => Err(Misuse {
                message: "no tokeniser, expected --tokenizer, or --codes and --dictionary".into(),
                hint: "for example: --tokenizer tokenizer.json".into(),
            }
            .into()),
        }
    }
}
