//! Convolutions: y_t = GELU(W · [x of all taps of t] + b), the inputs gathered by index, so that a convolution is one product and every
//! device has it.

use polyhead_attention::Pass;
use polyhead_attention::layers::Linear;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::{Indices, Var};

use crate::Result;

/// A convolution of `table` (positions × inputs): rows × outputs × the kernel's outputs. `taps` has the position of each input of
/// each output, rows × outputs × taps.
pub(crate) fn convolution(
    pass: &Pass<'_>,
    kernel: &Linear,
    table: &Var,
    (taps, rows, outputs): (&Indices, usize, usize),
) -> Result<Var> {
    let (width, n_taps) = (table.shape()[1], taps.len() / (rows * outputs).max(1));
    let x = embedding(pass.tape, taps, outputs * n_taps, table, &EmbeddingOptions::default())?;
    let options = LinearOptions { activation: Activation::Gelu, dropout: 0.0 };
    Ok(kernel.forward_with(pass, &x.reshaped(&[rows, outputs, n_taps * width]), options)?)
}
