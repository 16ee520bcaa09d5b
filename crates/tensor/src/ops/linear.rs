//! Linear layers: y = act(x·Wᵀ + b), optionally with dropout.
//!
//! x is … × d_in, W is d_out × d_in, y is … × d_out. Backward: with g the gradient before the activation, dx = g·W, dW
//! = gᵀ·x, db = Σ rows of g. After ReLU and dropout the output itself shows where g is zero; for the other activations
//! their input is saved.

pub use super::activation::Activation;
use super::activation::with_function;
use super::dropout::DropoutMask;
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut, Output, gemm};
use crate::lanes::vectorised;
use crate::prepared::Prepared;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Activation and dropout after the product.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinearOptions {
    /// Activation. Default: none.
    pub activation: Activation,
    /// Probability of dropping an output in training. Default: 0.
    pub dropout: f32,
}

/// y = act(x·Wᵀ + b).
///
/// # Errors
/// If the shapes do not fit together.
pub fn linear(tape: &Tape, x: &Var, weight: &Var, bias: Option<&Var>, options: LinearOptions) -> Result<Var> {
    let [rows, d_in, d_out] = check(x, weight, bias)?;
    on_gpu!(x.value() => crate::cuda::ops::linear::linear(tape, x, weight, bias, options));
    let mask = DropoutMask::draw(tape, options.dropout)?;
    let mut out_shape = x.shape().to_vec();
    *out_shape.last_mut().expect("checked above") = d_out;
    let mut y = Tensor::uninit(&out_shape);
    let weights = Matrix::new(weight.value().data(), d_out, d_in);
    gemm(
        &mut MatrixMut::new(y.data_mut(), rows, d_out),
        Matrix::new(x.value().data(), rows, d_in),
        weights.t(),
        Output::Overwrite,
    );
    let bias_data = bias.map(|bias| bias.value().data());
    let keeps_input =
        tape.is_training() && !matches!(options.activation, Activation::None | Activation::Relu);
    let before = keeps_input.then(|| {
        let mut before = Tensor::uninit(&out_shape);
        before.data_mut().copy_from_slice(y.data());
        before
    });
    parallel::rows(y.data_mut(), d_out, |first, block| {
        finish(block, d_out, bias_data, options.activation);
        if let Some(mask) = mask {
            mask.apply(first * d_out, block);
        }
    });
    let saved = LinearSaved {
        x: x.clone(),
        weight: weight.clone(),
        bias: bias.cloned(),
        y: (options.activation == Activation::Relu).then(|| y.clone()),
        before,
        mask,
        activation: options.activation,
    };
    let inputs: Vec<&Var> = [x, weight].into_iter().chain(bias).collect();
    Ok(tape.record(y, &inputs, move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// Checks the shapes; returns [rows, d_in, d_out].
pub(super) fn check(x: &Var, weight: &Var, bias: Option<&Var>) -> Result<[usize; 3]> {
    if x.shape().is_empty() {
        return shape("linear", "x", x.shape(), "at least one axis");
    }
    let [rows, d_in] = x.value().rows();
    let &[d_out, weight_in] = weight.shape() else {
        return shape("linear", "weight", weight.shape(), "two axes");
    };
    if weight_in != d_in {
        return shape(
            "linear",
            "weight",
            weight.shape(),
            format!("[…, {d_in}] for an input of {:?}", x.shape()),
        );
    }
    if let Some(bias) = bias.filter(|bias| bias.shape() != [d_out]) {
        return shape("linear", "bias", bias.shape(), format!("[{d_out}]"));
    }
    Ok([rows, d_in, d_out])
}

/// Like [`linear`] with prepared weights, without gradients and dropout.
///
/// # Errors
/// If the shapes do not fit together.
pub fn prepared_linear(
    x: &Var,
    weight: &Prepared,
    bias: Option<&[f32]>,
    activation: Activation,
) -> Result<Var> {
    let [d_out, d_in] = weight.shape();
    if x.shape().last() != Some(&d_in) {
        return shape("linear", "x", x.shape(), format!("[…, {d_in}]"));
    }
    if let Some(bias) = bias.filter(|bias| bias.len() != d_out) {
        return shape("linear", "bias", &[bias.len()], format!("[{d_out}]"));
    }
    Ok(Var::constant(weight.linear(x.value(), bias, activation)))
}

/// Adds the bias to every row and applies the activation.
pub(crate) fn finish_rows(y: &mut Tensor, bias: Option<&[f32]>, activation: Activation) {
    let [_, width] = y.rows();
    if bias.is_some() || activation != Activation::None {
        parallel::rows(y.data_mut(), width, |_, block| finish(block, width, bias, activation));
    }
}

struct LinearSaved {
    x: Var,
    weight: Var,
    bias: Option<Var>,
    /// The output; after ReLU it shows where the gradient is zero.
    y: Option<Tensor>,
    /// Input of the other activations, before the bias is added.
    before: Option<Tensor>,
    mask: Option<DropoutMask>,
    activation: Activation,
}

impl LinearSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut crate::tape::Gradients) {
        let gradient = self.before_activation(gradient);
        let [rows, d_out] = gradient.rows();
        let [_, d_in] = self.x.value().rows();
        let g = Matrix::new(gradient.data(), rows, d_out);
        gradients.update(&self.x, |out, output| {
            let weight = Matrix::new(self.weight.value().data(), d_out, d_in);
            gemm(&mut MatrixMut::new(out, rows, d_in), g, weight, output);
        });
        gradients.update(&self.weight, |out, output| {
            let x = Matrix::new(self.x.value().data(), rows, d_in);
            gemm(&mut MatrixMut::new(out, d_out, d_in), g.t(), x, output);
        });
        if let Some(bias) = &self.bias {
            gradients.update(bias, |out, output| sum_rows(out, gradient.data(), output));
        }
    }

    /// Gradient of x·Wᵀ + b.
    fn before_activation(&self, gradient: &Tensor) -> Tensor {
        if self.activation == Activation::None && self.mask.is_none() {
            return gradient.clone();
        }
        let [_, d_out] = gradient.rows();
        let mut out = Tensor::uninit(gradient.shape());
        let from = gradient.data();
        let bias = self.bias.as_ref().map(|bias| bias.value().data());
        parallel::rows(out.data_mut(), d_out, |first, block| {
            let start = first * d_out;
            block.copy_from_slice(&from[start..start + block.len()]);
            if let Some(mask) = self.mask {
                mask.apply(start, block);
            }
            let range = start..start + block.len();
            match (&self.before, &self.y) {
                (Some(before), _) => differentiate(block, &before.data()[range], bias, self.activation),
                (None, Some(y)) => zero_where_zero(block, &y.data()[range]),
                (None, None) => {}
            }
        });
        out
    }
}

/// out = or += the sum of the rows of `data`; each column is summed from the first row to the last.
pub(crate) fn sum_rows(out: &mut [f32], data: &[f32], output: Output) {
    let width = out.len();
    if output == Output::Overwrite {
        out.fill(0.0);
    }
    if width == 0 {
        return;
    }
    let block = width.div_ceil(rayon::current_num_threads()).next_multiple_of(64);
    let work = |(index, out): (usize, &mut [f32])| add_rows(out, data, width, index * block);
    if data.len() < 1 << 16 {
        out.chunks_mut(block).enumerate().for_each(work);
    } else {
        use rayon::prelude::*;
        out.par_chunks_mut(block).enumerate().for_each(work);
    }
}

vectorised! {
    fn add_rows(out: &mut [f32], data: &[f32], width: usize, start: usize) {
        for row in data.chunks_exact(width) {
            for (sum, number) in out.iter_mut().zip(&row[start..]) {
                *sum += number;
            }
        }
    }
}

vectorised! {
    fn finish(block: &mut [f32], width: usize, bias: Option<&[f32]>, activation: Activation) {
        for row in block.chunks_exact_mut(width) {
            if let Some(bias) = bias {
                for (number, bias) in row.iter_mut().zip(bias) {
                    *number += bias;
                }
            }
            with_function!(activation, f => for number in row {
                *number = f(*number).0;
            });
        }
    }
}

vectorised! {
    fn zero_where_zero(gradient: &mut [f32], y: &[f32]) {
        for (gradient, &y) in gradient.iter_mut().zip(y) {
            *gradient = if y == 0.0 { 0.0 } else { *gradient };
        }
    }
}

vectorised! {
    /// gradient ·= f′(before + bias).
    fn differentiate(gradient: &mut [f32], before: &[f32], bias: Option<&[f32]>, activation: Activation) {
        let Some(bias) = bias else {
            with_function!(activation, f => for (gradient, &x) in gradient.iter_mut().zip(before) {
                *gradient *= f(x).1;
            });
            return;
        };
        let width = bias.len().max(1);
        for (gradient, before) in gradient.chunks_exact_mut(width).zip(before.chunks_exact(width)) {
            with_function!(activation, f => for ((gradient, &x), &b) in gradient.iter_mut().zip(before).zip(bias) {
                *gradient *= f(x + b).1;
            });
        }
    }
}
