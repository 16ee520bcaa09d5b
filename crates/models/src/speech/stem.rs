//! The convolutional stem: two convolutions over time with kernels of 3 and GELU; the second has a stride of 2.
//!
//! y_t = GELU(W · [x_{s·t−1}; x_{s·t}; x_{s·t+1}] + b)

use polyhead_attention::layers::Linear;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::Var;
use polyhead_tensor::ops::shape::concat;

use super::frames::{Frames, TAPS};
use crate::Result;
use crate::convolution::convolution;

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
