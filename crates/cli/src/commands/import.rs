//! `polyhead import`: a model of another program, brought into our own form.

use anyhow::Result;
use clap::Args;
use polyhead_models::checkpoint::{Layout, marian_compatible};

use crate::conversion::ConversionOptions;
use crate::report::note;

const EXAMPLES: &str = "Examples:
  polyhead import opus-mt-en-de models/en-de
  polyhead import fairseq-model models/roman-nqo --dtype bf16

Read are folders of Hugging Face's Marian models, of fairseq (converted to safetensors, with args.json), of PyTorch's
nn.Transformer and our own. Our own form is Marian's where Marian can be the model, so that Python reads it too; otherwise
the polyhead layout. Tokeniser files, generation settings and the README come along.";

/// Options of `polyhead import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(flatten)]
    conversion: ConversionOptions,
}

impl Import {
    pub(crate) fn run(self) -> Result<()> {
        self.conversion.convert(|config| match marian_compatible(config) {
            Ok(()) => Layout::Marian,
            Err(reasons) => {
                note(&format!(
                    "note: the polyhead layout, since this is no Marian model: {}",
                    reasons.join("; ")
                ));
                Layout::Polyhead
            }
        })
    }
}
