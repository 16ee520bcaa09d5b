//! What enters a stack: scaled embeddings with their positions.

use polyhead_attention::layers::Embedding;
use polyhead_attention::multi_head::Order;
use polyhead_attention::position::{Layout, Learned, Rotary, Sinusoidal};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::ops::decoding::StepPlaces;
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::rotary::{Pairing, RotaryOptions};
use polyhead_tensor::{Indices, Result, Var};

use super::config::{PositionConfig, RotaryPairing, SinusoidalLayout};

/// Positions that are added to embeddings.
#[derive(Debug, Clone)]
enum Positions {
    None,
    Sinusoidal(Sinusoidal),
    Learned(Learned),
}

/// How ids are embedded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputOptions {
    /// Width of an embedding.
    pub(crate) d_model: usize,
    /// How the order of tokens is known.
    pub(crate) position: PositionConfig,
    /// Most positions.
    pub(crate) max_len: usize,
    /// Id of padding, from which fairseq counts positions.
    pub(crate) pad_id: u32,
    /// True if embeddings are multiplied with √d_model.
    pub(crate) scale_embedding: bool,
    /// Probability of dropping a number in training.
    pub(crate) dropout: f32,
}

/// Embeds ids for one stack.
#[derive(Debug, Clone)]
pub(super) struct Input {
    embedding: Embedding,
    scale: f32,
    d_model: usize,
    positions: Positions,
    dropout: f32,
}

impl Input {
    /// Declares learned positions here, if there are any.
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

    /// `ids` of rows × length, the first of each row at place `start` → rows × length × d_model.
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

    /// The newest token of each row → rows × d_model.
    pub(super) fn step(&self, pass: &Pass<'_>, rows: &StepRows) -> Result<Var> {
        let step = |places| self.embedding.step(pass, rows, self.scale, places);
        match &self.positions {
            Positions::None => step(StepPlaces::None),
            Positions::Learned(learned) => {
                step(StepPlaces::Learned(pass.parameter(learned.weight()).value()))
            }
            Positions::Sinusoidal(sinusoidal) => {
                step(StepPlaces::Computed(&|start, length| sinusoidal.rows(start, length, self.d_model)))
            }
        }
    }
}

fn sinusoidal(layout: SinusoidalLayout, pad_id: u32) -> Sinusoidal {
    match layout {
        SinusoidalLayout::Interleaved => Sinusoidal { layout: Layout::Interleaved, first: 0 },
        SinusoidalLayout::Concatenated => Sinusoidal { layout: Layout::Concatenated, first: 0 },
        SinusoidalLayout::Fairseq => Sinusoidal { layout: Layout::Fairseq, first: pad_id as usize + 1 },
    }
}

/// How self-attention of a stack knows the order; made once, since clones share the turns.
pub(super) fn order(position: PositionConfig, d_key: usize, max_len: usize) -> Result<Order> {
    Ok(match position {
        PositionConfig::Rotary { base, pairing } => {
            let pairing = match pairing {
                RotaryPairing::Interleaved => Pairing::Interleaved,
                RotaryPairing::Halves => Pairing::Halves,
            };
            Order::Rotary(Rotary::new(d_key, max_len, RotaryOptions { base, pairing })?)
        }
        PositionConfig::Relative { max_distance } => Order::Relative { max_distance },
        PositionConfig::None {} | PositionConfig::Sinusoidal { .. } | PositionConfig::Learned {} => {
            Order::Embedded
        }
    })
}
