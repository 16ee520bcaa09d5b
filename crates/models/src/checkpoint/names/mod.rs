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
}

impl CheckpointLayout {
    /// CheckpointLayouts that need a table. Pegasus' has all names of Marian's, which wins where both match.
    const FOREIGN: [Self; 6] =
        [Self::Pegasus, Self::Marian, Self::Fairseq, Self::Torch, Self::Gpt2, Self::Llama];

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
        }
    }

    /// The layout that matches most of these names, if it matches more than half; otherwise Polyhead's own.
    pub fn recognise<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        let matched = |layout: Self| {
            let rules = layout.rules();
            names.iter().filter(|name| rules.iter().any(|rule| table::matches(rule.theirs, name))).count()
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
        };
        tables.iter().flat_map(|text| table::parse(text)).collect()
    }
}

impl std::fmt::Display for CheckpointLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
