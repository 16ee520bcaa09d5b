//! `polyhead import`: a model of another program, converted to Polyhead's own layout.

use anyhow::Result;
use clap::Args;
use polyhead_models::View;
use polyhead_models::checkpoint::{CheckpointLayout, marian_compatible};

use crate::conversion::ConversionOptions;
use crate::report::note;

const EXAMPLES: &str = "\
Examples:
  polyhead import opus-mt-en-de --out models/en-de
  polyhead import fairseq-model --out models/roman-nqo --dtype bf16
  polyhead import llama-3.2-1b-q8_0.gguf --out models/llama --dtype bf16

Reads model folders of Hugging Face's Marian, GPT-2, Llama, Mistral, Qwen2, BERT, RoBERTa, XLM-RoBERTa, DistilBERT, MPNet and ModernBERT, of fairseq (converted to safetensors, with args.json), of PyTorch's nn.Transformer and of Polyhead, and single files: GGUF of llama.cpp with the architectures llama, qwen2 and gpt2 (f32, f16, bf16 or Q8_0), and llama2.c's .bin. Writes a layout of Hugging Face where one can represent the model, so that Python can load it too; otherwise the polyhead layout. The tokeniser inside a GGUF file becomes tokenizer.json. Tokeniser files, generation settings and the README are copied.";

/// Options of `polyhead import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(flatten)]
    conversion: ConversionOptions,
}

impl Import {
    pub(crate) fn run(self) -> Result<()> {
        self.conversion.convert(|config| {
            let layout = CheckpointLayout::fitting(config);
            let translates = config.view() == View::SequenceToSequence;
            if layout == CheckpointLayout::Polyhead
                && translates
                && let Err(reasons) = marian_compatible(config)
            {
                note(&format!(
                    "note: writing the polyhead layout, since this is no Marian model: {}",
                    reasons.join("; ")
                ));
            }
            layout
        })
    }
}
