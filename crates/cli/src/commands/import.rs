//! `polyhead import`: a model of another program, converted to Polyhead's own layout.

use anyhow::Result;
use clap::Args;
use polyhead_models::checkpoint::{CheckpointLayout, marian_compatible};

use crate::conversion::ConversionOptions;
use crate::report::note;

const EXAMPLES: &str = "\
Examples:
  polyhead import opus-mt-en-de --out models/en-de
  polyhead import fairseq-model --out models/roman-nqo --dtype bf16

Reads model folders of Hugging Face's Marian, of fairseq (converted to safetensors, with args.json), of PyTorch's nn.Transformer and of Polyhead. Writes Marian's layout where it can represent the model, so that Python can load it too; otherwise the polyhead layout. Tokeniser files, generation settings and the README are copied.";

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
            Ok(()) => CheckpointLayout::Marian,
            Err(reasons) => {
                note(&format!(
                    "note: writing the polyhead layout, since this is no Marian model: {}",
                    reasons.join("; ")
                ));
                CheckpointLayout::Polyhead
            }
        })
    }
}
