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

use super::config::{PositionConfig, RotaryPairing, SinusoidalLayout, StackConfig, TransformerConfig};

/// Positions that are added to embeddings.
#[derive(Debug, Clone)]
enum Positions {
    None,
    Sinusoidal(Sinusoidal),
    Learned(Learned),
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
    pub(super) fn new(builder: &mut Builder<'_>, embedding: Embedding, config: &TransformerConfig) -> Self {
        let positions = match config.position {
            PositionConfig::Sinusoidal { layout } => Positions::Sinusoidal(sinusoidal(layout, config.pad_id)),
            PositionConfig::Learned {} => {
                Positions::Learned(Learned::new(&mut builder.at("positions"), config.max_len, config.d_model))
            }
            PositionConfig::None {} | PositionConfig::Relative { .. } | PositionConfig::Rotary { .. } => {
                Positions::None
            }
        };
        let scale = if config.scale_embedding { (config.d_model as f32).sqrt() } else { 1.0 };
        Self { embedding, scale, d_model: config.d_model, positions, dropout: config.dropout.embedding }
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
        if !pass.parameters.device().is_cpu() {
            return self.step_on_device(pass, rows);
        }
        let x = self.forward(pass, &rows.tokens().into(), 1, rows.len())?;
        Ok(x.reshaped(&[rows.count(), self.d_model]))
    }

    /// The same where the place of the newest token is known to the device alone, so that a recorded step serves for all.
    fn step_on_device(&self, pass: &Pass<'_>, rows: &StepRows) -> Result<Var> {
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
pub(super) fn order(config: &TransformerConfig, stack: StackConfig) -> Result<Order> {
    Ok(match config.position {
        PositionConfig::Rotary { base, pairing } => {
            let pairing = match pairing {
                RotaryPairing::Interleaved => Pairing::Interleaved,
                RotaryPairing::Halves => Pairing::Halves,
            };
            Order::Rotary(Rotary::new(
                stack.heads(config.d_model).d_key,
                config.max_len,
                RotaryOptions { base, pairing },
            )?)
        }
        PositionConfig::Relative { max_distance } => Order::Relative { max_distance },
        PositionConfig::None {} | PositionConfig::Sinusoidal { .. } | PositionConfig::Learned {} => {
            Order::Embedded
        }
    })
}
