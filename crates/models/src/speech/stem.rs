//! The convolutional stem: two convolutions over time with kernels of 3 and GELU; the second has a stride of 2.
//!
//! A convolution is one product: y_t = W · [x_{s·t−1}; x_{s·t}; x_{s·t+1}] + b, with the inputs gathered by index.

use polyhead_attention::layers::Linear;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::ops::shape::concat;
use polyhead_tensor::{Indices, Var};

use super::frames::{Frames, TAPS};
use crate::Result;

/// The two convolutions.
#[derive(Debug, Clone)]
pub(super) struct Stem {
    first: Linear,
    second: Linear,
    d_model: usize,
}

impl Stem {
    /// Declares the kernels, d_model × (3 · inputs) each, the inputs of one time together.
    pub(super) fn new(builder: &mut Builder<'_>, n_mels: usize, d_model: usize) -> Self {
        Self {
            first: Linear::new(&mut builder.at("first"), TAPS * n_mels, d_model),
            second: Linear::new(&mut builder.at("second"), TAPS * d_model, d_model),
            d_model,
        }
    }

    /// rows × positions × d_model.
    pub(super) fn forward(&self, pass: &Pass<'_>, frames: &Frames) -> Result<Var> {
        let (rows, length, d) = (frames.rows(), frames.length(), self.d_model);
        let table = Var::constant(frames.features());
        let x = convolution(pass, &self.first, &table, (frames.first(), rows, length))?;
        // Outputs at padding are not zero; the second convolution reads zeros in their place.
        let x = x.reshaped(&[rows * length, d]);
        let table = concat(pass.tape, &[&x, &Var::constant(frames.zeros())], 0)?;
        convolution(pass, &self.second, &table, (frames.second(), rows, frames.positions()))
    }
}

fn convolution(
    pass: &Pass<'_>,
    kernel: &Linear,
    table: &Var,
    (taps, rows, outputs): (&Indices, usize, usize),
) -> Result<Var> {
    let width = table.shape()[1];
    let x = embedding(pass.tape, taps, outputs * TAPS, table, &EmbeddingOptions::default())?;
    let options = LinearOptions { activation: Activation::Gelu, dropout: 0.0 };
    Ok(kernel.forward_with(pass, &x.reshaped(&[rows, outputs, TAPS * width]), options)?)
}
