//! The input of a stack: scaled embeddings plus positions.

use polyhead_attention::layers::Embedding;
use polyhead_attention::multi_head::PositionEncoding;
use polyhead_attention::position::{Learned, Rotary, SinusoidLayout, Sinusoidal};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::ops::decoding::StepPositions;
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::rotary::{Pairing, RotaryOptions, RotaryScaling};
use polyhead_tensor::{Indices, Result, Var};

use super::config::{PositionConfig, RotaryPairing, RotaryScale, SinusoidalLayout};

/// Positions that are added to embeddings.
#[derive(Debug, Clone)]
enum Positions {
    None,
    Sinusoidal(Sinusoidal),
    Learned(Learned),
}

/// Options of the input of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputOptions {
    /// Width of an embedding.
    pub(crate) d_model: usize,
    /// Positional encoding.
    pub(crate) position: PositionConfig,
    /// Maximum number of positions.
    pub(crate) max_len: usize,
    /// Id of padding; fairseq counts positions from it.
    pub(crate) pad_id: u32,
    /// True if embeddings are multiplied by √d_model.
    pub(crate) scale_embedding: bool,
    /// Dropout probability in training.
    pub(crate) dropout: f32,
}

/// The embedding layer of one stack.
#[derive(Debug, Clone)]
pub(super) struct Input {
    embedding: Embedding,
    scale: f32,
    d_model: usize,
    positions: Positions,
    dropout: f32,
}

impl Input {
    /// The table of embeddings.
    pub(super) fn embedding(&self) -> &Embedding {
        &self.embedding
    }

    /// Declares learned positions under `builder`, if there are any.
    pub(super) fn new(builder: &mut Builder<'_>, embedding: Embedding, options: &InputOptions) -> Self {
        let positions = match options.position {
            PositionConfig::Sinusoidal { layout } => {
                Positions::Sinusoidal(sinusoidal(layout, options.pad_id))
            }
            PositionConfig::Learned {} => Positions::Learned(Learned::new(
                &mut builder.at("positions"),
                options.max_len,
                options.d_model,
            )),
            PositionConfig::None {} | PositionConfig::Relative { .. } | PositionConfig::Rotary { .. } => {
                Positions::None
            }
        };
        let InputOptions { d_model, scale_embedding, dropout, .. } = *options;
        let scale = if scale_embedding { (d_model as f32).sqrt() } else { 1.0 };
        Self { embedding, scale, d_model, positions, dropout }
    }

    /// Embeds `ids` (rows × length), the first of each row at position `start` → rows × length × d_model.
    pub(super) fn forward(&self, pass: &Pass<'_>, ids: &Indices, length: usize, start: usize) -> Result<Var> {
        let positions = match &self.positions {
            Positions::Sinusoidal(sinusoidal) => Some(sinusoidal.rows(start, length, self.d_model)),
            Positions::None | Positions::Learned(_) => None,
        };
        let options = EmbeddingOptions { scale: self.scale, positions };
        let mut x = self.embedding.forward(pass, ids, length, &options)?;
        if let Positions::Learned(learned) = &self.positions {
            x = learned.add(pass, &x, start)?;
        }
        dropout(pass.tape, &x, self.dropout)
    }

    /// Embeds the newest token of each row → rows × d_model.
    pub(super) fn step(&self, pass: &Pass<'_>, rows: &StepRows) -> Result<Var> {
        let step = |positions| self.embedding.step(pass, rows, self.scale, positions);
        match &self.positions {
            Positions::None => step(StepPositions::None),
            Positions::Learned(learned) => {
                step(StepPositions::Learned(pass.parameter(learned.weight()).value()))
            }
            Positions::Sinusoidal(sinusoidal) => {
                step(StepPositions::Computed(&|start, length| sinusoidal.rows(start, length, self.d_model)))
            }
        }
    }
}

pub(crate) fn sinusoidal(layout: SinusoidalLayout, pad_id: u32) -> Sinusoidal {
    match layout {
        SinusoidalLayout::Interleaved => Sinusoidal { layout: SinusoidLayout::Interleaved, first: 0 },
        SinusoidalLayout::Concatenated => Sinusoidal { layout: SinusoidLayout::Concatenated, first: 0 },
        SinusoidalLayout::Fairseq => {
            Sinusoidal { layout: SinusoidLayout::Fairseq, first: pad_id as usize + 1 }
        }
    }
}

/// The positional encoding inside self-attention; computed once per stack, since clones share the table of rotations.
pub(super) fn position_encoding(
    position: PositionConfig,
    d_key: usize,
    max_len: usize,
) -> Result<PositionEncoding> {
    Ok(match position {
        PositionConfig::Rotary { base, pairing, scaling } => {
            let pairing = match pairing {
                RotaryPairing::Interleaved => Pairing::Interleaved,
                RotaryPairing::Halves => Pairing::Halves,
            };
            let scaling = scaling.map_or(RotaryScaling::None, rotary_scaling);
            PositionEncoding::Rotary(Rotary::new(d_key, max_len, RotaryOptions { base, pairing, scaling })?)
        }
        PositionConfig::Relative { max_distance } => PositionEncoding::Relative { max_distance },
        PositionConfig::None {} | PositionConfig::Sinusoidal { .. } | PositionConfig::Learned {} => {
            PositionEncoding::Embedded
        }
    })
}

fn rotary_scaling(scale: RotaryScale) -> RotaryScaling {
    match scale {
        RotaryScale::Linear { factor } => RotaryScaling::Linear { factor },
        RotaryScale::Llama3 { factor, low, high, original } => {
            RotaryScaling::Llama3 { factor, low, high, original: original as f32 }
        }
        RotaryScale::Yarn { factor, fast, slow, original, attention } => {
            RotaryScaling::Yarn { factor, fast, slow, original: original as f32, attention }
        }
    }
}
