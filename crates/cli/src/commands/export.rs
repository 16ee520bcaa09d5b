//! `polyhead export`: a model in the form of another program.

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_models::checkpoint::Layout;

use crate::conversion::ConversionOptions;

const EXAMPLES: &str = "Examples:
  polyhead export models/en-de for-python --layout marian
  polyhead export models/en-de small --layout marian --dtype bf16 --max-shard-size 2GB

A folder in the layout marian is read by Hugging Face's MarianMTModel. In the layouts fairseq and torch the weights have
the names of these programs and the config is ours. Tokeniser files, generation settings and the README come along.";

/// Options of `polyhead export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    #[command(flatten)]
    conversion: ConversionOptions,
    /// Whose names the weights get
    #[arg(long, value_enum)]
    layout: LayoutName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutName {
    /// Hugging Face's MarianMTModel, with its config
    Marian,
    /// fairseq's Transformer
    Fairseq,
    /// PyTorch's nn.Transformer
    Torch,
    /// Our own
    Polyhead,
}

impl Export {
    pub(crate) fn run(self) -> Result<()> {
        let layout = match self.layout {
            LayoutName::Marian => Layout::Marian,
            LayoutName::Fairseq => Layout::Fairseq,
            LayoutName::Torch => Layout::Torch,
            LayoutName::Polyhead => Layout::Polyhead,
        };
        self.conversion.convert(|_| layout)
    }
}
