//! What other programs call our parameters.
//!
//! A layout is a text file beside this one, read by [`table`](self). `links.rs` applies it to the parameters that a model
//! declares, `read.rs` and `write.rs` move the numbers.

mod links;
mod read;
mod table;
mod write;

use serde::{Deserialize, Serialize};

use super::config::marian_compatible;
use crate::ModelConfig;

pub(super) use read::{check, read};
pub(super) use write::arrays;

/// Whose names the arrays of a file have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Our own.
    #[default]
    Polyhead,
    /// Hugging Face's Marian models.
    Marian,
    /// fairseq's Transformer.
    Fairseq,
    /// PyTorch's nn.Transformer with embeddings and an output layer around it.
    Torch,
}

impl Layout {
    /// Layouts that need a table.
    const FOREIGN: [Self; 3] = [Self::Marian, Self::Fairseq, Self::Torch];

    /// The layout that most programs read: Marian's where it can describe the model, else our own.
    pub fn fitting(config: &ModelConfig) -> Self {
        if marian_compatible(config).is_ok() { Self::Marian } else { Self::Polyhead }
    }

    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Polyhead => "polyhead",
            Self::Marian => "marian",
            Self::Fairseq => "fairseq",
            Self::Torch => "torch",
        }
    }

    /// The layout that explains most of these names, if it explains more than half; otherwise our own.
    pub fn recognise<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        let explained = |layout: Self| {
            let lines = layout.lines();
            names.iter().filter(|name| lines.iter().any(|line| table::matches(line.theirs, name))).count()
        };
        let best = Self::FOREIGN
            .map(|layout| (explained(layout), layout))
            .into_iter()
            .max_by_key(|(count, _)| *count);
        best.filter(|(count, _)| count * 2 > names.len()).map_or(Self::Polyhead, |(_, layout)| layout)
    }

    /// The lines of its table; our own names need none.
    fn lines(self) -> Vec<table::Line> {
        table::parse(match self {
            Self::Polyhead => "",
            Self::Marian => include_str!("marian.txt"),
            Self::Fairseq => include_str!("fairseq.txt"),
            Self::Torch => include_str!("torch.txt"),
        })
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
