//! Both ends of a decoding step: the input of the first layer, and logits in f32.

use super::attention::StepRows;
use super::embedding::{EmbeddingOptions, embedding};
use super::linear::{LinearOptions, linear};
use crate::error::shape;
use crate::lanes::add_assign;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Position vectors that are added to token embeddings.
#[derive(Clone, Copy)]
pub enum StepPositions<'a> {
    /// No positions are added.
    None,
    /// Rows of a learned table.
    Learned(&'a Tensor),
    /// Computed: `(first, count)` gives the vectors of `count` positions from `first`.
    Computed(&'a dyn Fn(usize, usize) -> Tensor),
}

impl StepPositions<'_> {
    /// Adds to each row of x, rows × d_model in CPU memory, the vector of its position.
    pub fn add_to(self, x: &mut Tensor, positions: &[usize]) {
        let [_, d_model] = x.rows();
        let rows = x.data_mut().chunks_exact_mut(d_model.max(1)).zip(positions);
        match self {
            Self::None => {}
            Self::Computed(compute) => {
                // Most often all rows have one position.
                let mut computed: Option<(usize, Tensor)> = None;
                for (row, &position) in rows {
                    if computed.as_ref().is_none_or(|(known, _)| *known != position) {
                        computed = Some((position, compute(position, 1)));
                    }
                    let (_, vector) = computed.as_ref().expect("just computed");
                    add_assign(row, vector.data());
                }
            }
            Self::Learned(table) => {
                for (row, &position) in rows {
                    add_assign(row, &table.data()[position * d_model..][..d_model]);
                }
            }
        }
    }
}

impl std::fmt::Debug for StepPositions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Learned(_) => "Learned",
            Self::Computed(_) => "Computed",
        })
    }
}

/// Returns scale · E(token) + position vector for the newest token of each row: rows × d_model.
///
/// # Errors
/// If a token is outside the table, or its position outside the table of positions.
pub fn step_input(
    table: &Tensor,
    rows: &StepRows,
    scale: f32,
    positions: StepPositions<'_>,
) -> Result<Tensor> {
    let &[vocab_size, d_model] = table.shape() else {
        return shape("embedding", "table", table.shape(), "two axes");
    };
    if let Some((position, &id)) =
        rows.tokens().iter().enumerate().find(|(_, id)| **id as usize >= vocab_size)
    {
        return Err(Error::Id { operation: "embedding", id, position, vocab_size });
    }
    if let StepPositions::Learned(learned) = positions
        && (learned.shape().len() != 2 || learned.shape()[0] <= rows.len() || learned.shape()[1] != d_model)
    {
        let expected = format!("more than {} positions of {d_model} values", rows.len());
        return shape("embedding", "positions", learned.shape(), expected);
    }
    on_gpu!(table => Ok(crate::cuda::ops::step::step_input(table, rows, scale, positions)));
    let (tape, options) = (Tape::inference(), EmbeddingOptions { scale, positions: None });
    let y = embedding(&tape, &rows.tokens().into(), 1, &Var::constant(table.clone()), &options)?;
    let mut y = y.into_value().reshaped(&[rows.count(), d_model]);
    positions.add_to(&mut y, rows.lengths());
    Ok(y)
}

/// x·Wᵀ + b in f32, whatever the compute dtype, for log-probabilities. The result outlives a recorded step.
///
/// # Errors
/// If the shapes do not fit together.
pub fn step_logits(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let ([_, d_in], &[d_out, _]) = (x.rows(), weight.shape()) else {
        return shape("logits", "weight", weight.shape(), "two axes");
    };
    if weight.shape() != [d_out, d_in] || bias.is_some_and(|bias| bias.shape() != [d_out]) {
        return shape("logits", "weight", weight.shape(), format!("[{d_out}, {d_in}] and {d_out} biases"));
    }
    on_gpu!(x => Ok(crate::cuda::ops::step::step_logits(x, weight, bias)));
    let [weight, x] = [weight, x].map(|tensor| Var::constant(tensor.clone()));
    let bias = bias.cloned().map(Var::constant);
    Ok(linear(&Tape::inference(), &x, &weight, bias.as_ref(), LinearOptions::default())?.into_value())
}
