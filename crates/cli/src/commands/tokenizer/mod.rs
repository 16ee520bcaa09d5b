//! `polyhead tokenizer`: train tokenisers and use them.

mod encode;
mod info;
mod train;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_text::tokenizer::Tokenizer as AnyTokenizer;

use crate::report::Misuse;

/// The commands about tokenisers.
#[derive(Debug, Subcommand)]
pub(crate) enum Tokenizer {
    /// Train a tokeniser from raw text
    Train(train::Train),
    /// Turn text into pieces or ids
    Encode(encode::Encode),
    /// Turn ids into text
    Decode(encode::Decode),
    /// Describe a tokeniser
    Info(info::Info),
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

/// Which tokeniser.
#[derive(Debug, Args)]
struct TokenizerOptions {
    /// tokenizer.json, a SentencePiece .spm or .model file, or a model folder
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
                message: "no tokeniser given, expected --tokenizer, or --codes and --dictionary".into(),
                hint: "for instance: --tokenizer tokenizer.json".into(),
            }
            .into()),
        }
    }
}
