//! The names of parameters in the checkpoints of other programs.
//!
//! A layout is a text file beside this one, parsed by [`table`](self). `links.rs` applies it to the parameters that a model
//! declares; `read.rs` and `write.rs` copy the values.

mod links;
mod read;
mod table;
mod write;

use serde::{Deserialize, Serialize};

use super::config::{fitting, marian_compatible};
use crate::ModelConfig;

pub(super) use read::{check, read};
pub(super) use write::tensors;

/// The naming scheme of the tensors in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointLayout {
    /// Polyhead's own.
    #[default]
    Polyhead,
    /// Hugging Face's Marian models.
    Marian,
    /// Hugging Face's Pegasus models.
    Pegasus,
    /// fairseq's Transformer.
    Fairseq,
    /// PyTorch's nn.Transformer with embeddings and an output layer around it.
    Torch,
    /// Hugging Face's GPT-2.
    Gpt2,
    /// Hugging Face's Llama, Mistral and Qwen2.
    Llama,
    /// Hugging Face's BERT.
    Bert,
    /// Hugging Face's RoBERTa and XLM-RoBERTa.
    Roberta,
    /// Hugging Face's DistilBERT.
    Distilbert,
    /// Hugging Face's MPNet.
    Mpnet,
    /// Hugging Face's ModernBERT.
    Modernbert,
    /// Hugging Face's ViT.
    Vit,
    /// Hugging Face's DeiT.
    Deit,
    /// Hugging Face's DeiT with a head for each token.
    DeitWithTeacher,
    /// Hugging Face's Whisper.
    Whisper,
}

impl CheckpointLayout {
    /// CheckpointLayouts that need a table. Pegasus' has all names of Marian's, which wins where both match.
    const FOREIGN: [Self; 15] = [
        Self::Whisper,
        Self::Pegasus,
        Self::Marian,
        Self::Fairseq,
        Self::Torch,
        Self::Gpt2,
        Self::Llama,
        Self::Modernbert,
        Self::Mpnet,
        Self::Distilbert,
        Self::Roberta,
        Self::Bert,
        Self::DeitWithTeacher,
        Self::Deit,
        Self::Vit,
    ];
    /// CheckpointLayouts of BERT-like encoders.
    pub(crate) const ENCODERS: [Self; 5] =
        [Self::Bert, Self::Roberta, Self::Distilbert, Self::Mpnet, Self::Modernbert];

    /// CheckpointLayouts of image classifiers.
    pub(crate) const IMAGES: [Self; 3] = [Self::Vit, Self::Deit, Self::DeitWithTeacher];

    /// The most portable layout: one of Hugging Face's that can represent the model, otherwise Polyhead's own.
    pub fn fitting(config: &ModelConfig) -> Self {
        if marian_compatible(config).is_ok() {
            return Self::Marian;
        }
        fitting(config).unwrap_or_default()
    }

    /// The name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Polyhead => "polyhead",
            Self::Marian => "marian",
            Self::Pegasus => "pegasus",
            Self::Fairseq => "fairseq",
            Self::Torch => "torch",
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Bert => "bert",
            Self::Roberta => "roberta",
            Self::Distilbert => "distilbert",
            Self::Mpnet => "mpnet",
            Self::Modernbert => "modernbert",
            Self::Vit => "vit",
            Self::Deit => "deit",
            Self::DeitWithTeacher => "deit_with_teacher",
            Self::Whisper => "whisper",
        }
    }

    /// The layout that matches most of these names, if it matches more than half; otherwise Polyhead's own.
    pub fn recognise<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        let matched = |layout: Self| {
            let rules = layout.rules();
            names.iter().filter(|name| rules.iter().any(|rule| table::matches(&rule.theirs, name))).count()
        };
        let best =
            Self::FOREIGN.map(|layout| (matched(layout), layout)).into_iter().max_by_key(|(count, _)| *count);
        best.filter(|(count, _)| count * 2 > names.len()).map_or(Self::Polyhead, |(_, layout)| layout)
    }

    /// The rules of its table; Polyhead's own names need none.
    fn rules(self) -> Vec<table::NameRule> {
        let tables: &[&'static str] = match self {
            Self::Polyhead => &[],
            Self::Marian => &[include_str!("marian.txt")],
            Self::Pegasus => &[include_str!("marian.txt"), include_str!("pegasus.txt")],
            Self::Fairseq => &[include_str!("fairseq.txt")],
            Self::Torch => &[include_str!("torch.txt")],
            Self::Gpt2 => &[include_str!("gpt2.txt")],
            Self::Llama => &[include_str!("llama.txt")],
            Self::Bert => &[include_str!("bert.txt")],
            Self::Roberta => &[include_str!("roberta.txt")],
            Self::Distilbert => &[include_str!("distilbert.txt")],
            Self::Mpnet => &[include_str!("mpnet.txt")],
            Self::Modernbert => &[include_str!("modernbert.txt")],
            Self::Vit => &[include_str!("vit.txt")],
            Self::Deit => &[include_str!("deit.txt")],
            Self::DeitWithTeacher => &[include_str!("deit_with_teacher.txt")],
            Self::Whisper => &[include_str!("whisper.txt")],
        };
        let mut rules: Vec<_> = tables.iter().flat_map(|text| table::parse(text)).collect();
        // Without a head the prefix of the encoder's names may be missing, and old files call weights and biases of norms
        // gamma and beta.
        let prefix = match self {
            Self::Bert => "bert.",
            Self::Roberta => "roberta.",
            Self::Distilbert => "distilbert.",
            Self::Mpnet => "mpnet.",
            Self::Modernbert => "model.",
            _ => return rules,
        };
        let bare: Vec<_> = rules.iter().filter_map(|rule| rule.without_prefix(prefix)).collect();
        rules.extend(bare);
        let old: Vec<_> = rules.iter().filter_map(table::NameRule::of_old_norm).collect();
        rules.extend(old);
        rules
    }
}

impl std::fmt::Display for CheckpointLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
