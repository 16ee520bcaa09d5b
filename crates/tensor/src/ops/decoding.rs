//! Both ends of a step of decoding on a device: what goes into the first layer, and logits in f32.

use super::attention::StepRows;
use super::embedding::{EmbeddingOptions, embedding};
use super::linear::{LinearOptions, linear};
use crate::error::shape;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// The vectors of places that are added to those of tokens.
#[derive(Clone, Copy)]
pub enum StepPlaces<'a> {
    /// None are.
    None,
    /// Rows of a table that was learned.
    Learned(&'a Tensor),
    /// Those from a place on, so many, are computed.
    Computed(&'a dyn Fn(usize, usize) -> Tensor),
}

impl StepPlaces<'_> {
    /// The vector of one place, 1 × d_model, in the memory of the CPU.
    pub fn row(self, place: usize, d_model: usize) -> Option<Tensor> {
        match self {
            Self::None => None,
            Self::Computed(compute) => Some(compute(place, 1)),
            Self::Learned(places) => {
                Some(Tensor::new(&[1, d_model], places.data()[place * d_model..][..d_model].to_vec()))
            }
        }
    }
}

impl std::fmt::Debug for StepPlaces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Learned(_) => "Learned",
            Self::Computed(_) => "Computed",
        })
    }
}

/// scale · E(token) + the vector of its place, for the newest token of each row: rows × d_model.
///
/// # Errors
/// If a token is outside the table, or its place is outside that of places.
pub fn step_input(table: &Tensor, rows: &StepRows, scale: f32, places: StepPlaces<'_>) -> Result<Tensor> {
    let &[vocab_size, d_model] = table.shape() else {
        return shape("embedding", "table", table.shape(), "two axes");
    };
    if let Some((position, &id)) =
        rows.tokens().iter().enumerate().find(|(_, id)| **id as usize >= vocab_size)
    {
        return Err(Error::Id { operation: "embedding", id, position, vocab_size });
    }
    if let StepPlaces::Learned(places) = places
        && (places.shape().len() != 2 || places.shape()[0] <= rows.len() || places.shape()[1] != d_model)
    {
        let expected = format!("more than {} places of {d_model} numbers", rows.len());
        return shape("embedding", "places", places.shape(), expected);
    }
    on_gpu!(table => Ok(crate::cuda::ops::step::step_input(table, rows, scale, places)));
    let positions = places.row(rows.len(), d_model);
    let (tape, options) = (Tape::inference(), EmbeddingOptions { scale, positions });
    let y = embedding(&tape, &rows.tokens().into(), 1, &Var::constant(table.clone()), &options)?;
    Ok(y.into_value().reshaped(&[rows.count(), d_model]))
}

/// x·Wᵀ + b in f32, whatever a device computes with: what log-probabilities are made of. It outlives a recorded step.
///
/// # Errors
/// If the shapes do not fit together.
pub fn step_logits(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let ([_, d_in], &[d_out, _]) = (x.rows(), weight.shape()) else {
        return shape("logits", "weight", weight.shape(), "two axes");
    };
    if weight.shape() != [d_out, d_in] || bias.is_some_and(|bias| bias.shape() != [d_out]) {
        return shape("logits", "weight", weight.shape(), format!("[{d_out}, {d_in}] and as many biases"));
    }
    on_gpu!(x => Ok(crate::cuda::ops::step::step_logits(x, weight, bias)));
    let [weight, x] = [weight, x].map(|tensor| Var::constant(tensor.clone()));
    let bias = bias.cloned().map(Var::constant);
    Ok(linear(&Tape::inference(), &x, &weight, bias.as_ref(), LinearOptions::default())?.into_value())
}
