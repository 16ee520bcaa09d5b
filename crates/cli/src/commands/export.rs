//! `polyhead export`: a model in the layout of another program.

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_models::checkpoint::CheckpointLayout;

use crate::conversion::ConversionOptions;

const EXAMPLES: &str = "\
Examples:
  polyhead export models/en-de --out for-python --layout marian
  polyhead export models/en-de --out small --layout marian --dtype bf16
  polyhead export models/default --out for-python --layout pegasus --dtype f32
  ct2-transformers-converter --model for-python --output_dir for-ctranslate2
  polyhead export models/default --out floats --layout polyhead --dtype f32

Hugging Face's MarianMTModel loads a folder in the layout marian, which is for post-norm models; PegasusForConditionalGeneration loads one in the layout pegasus, which is for pre-norm models with final norms and one embedding table. CTranslate2's converter reads the latter too. Language models of the kind of GPT-2, Llama, Mistral or Qwen2 are written in the layouts gpt2 and llama, encoders in bert, roberta, distilbert, mpnet and modernbert. int8 weights stay int8 in the layout polyhead; with --dtype they are dequantised, which the other layouts need. In the layouts fairseq and torch the weights have the names of these programs, and the config is Polyhead's. Tokeniser files, generation settings and the README are copied.";

/// Options of `polyhead export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    #[command(flatten)]
    conversion: ConversionOptions,
    /// Layout of weights and config
    #[arg(long, value_enum)]
    layout: ExportLayout,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportLayout {
    /// Hugging Face's MarianMTModel, with its config
    Marian,
    /// Hugging Face's PegasusForConditionalGeneration, with its config
    Pegasus,
    /// fairseq's Transformer
    Fairseq,
    /// PyTorch's nn.Transformer
    Torch,
    /// Hugging Face's GPT2LMHeadModel, with its config
    Gpt2,
    /// Hugging Face's LlamaForCausalLM, MistralForCausalLM or Qwen2ForCausalLM, with their config
    Llama,
    /// Hugging Face's BertModel and its heads, with their config
    Bert,
    /// Hugging Face's RobertaModel and its heads, with their config
    Roberta,
    /// Hugging Face's DistilBertModel and its heads, with their config
    Distilbert,
    /// Hugging Face's MPNetModel and its heads, with their config
    Mpnet,
    /// Hugging Face's ModernBertModel and its heads, with their config
    Modernbert,
    /// Polyhead's own
    Polyhead,
}

impl Export {
    pub(crate) fn run(self) -> Result<()> {
        let layout = match self.layout {
            ExportLayout::Marian => CheckpointLayout::Marian,
            ExportLayout::Pegasus => CheckpointLayout::Pegasus,
            ExportLayout::Fairseq => CheckpointLayout::Fairseq,
            ExportLayout::Torch => CheckpointLayout::Torch,
            ExportLayout::Gpt2 => CheckpointLayout::Gpt2,
            ExportLayout::Llama => CheckpointLayout::Llama,
            ExportLayout::Bert => CheckpointLayout::Bert,
            ExportLayout::Roberta => CheckpointLayout::Roberta,
            ExportLayout::Distilbert => CheckpointLayout::Distilbert,
            ExportLayout::Mpnet => CheckpointLayout::Mpnet,
            ExportLayout::Modernbert => CheckpointLayout::Modernbert,
            ExportLayout::Polyhead => CheckpointLayout::Polyhead,
        };
        self.conversion.convert(|_| layout)
    }
}
