//! Root-mean-square normalisation, with the residual connection and dropout that precede it.
//!
//! Zhang & Sennrich 2019: y = γ h/√(mean(h²) + ε) over the last axis, here with h = residual + dropout(x). With n the
//! normalised row and g = γ·dy: dh = (g − n·mean(g·n))/√(mean(h²) + ε), dγ = Σ dy·n.

use super::dropout::dropout;
use super::elementwise::add;
use super::linear::sum_rows;
use super::norm::NormOptions;
use crate::error::shape;
use crate::lanes::{sum, sum3, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// RmsNorm(residual + dropout(x)), or of x alone without a residual. γ has the width of the last axis.
///
/// # Errors
/// If the shapes do not fit together.
pub fn rms_norm(
    tape: &Tape,
    x: &Var,
    residual: Option<&Var>,
    gamma: &Var,
    options: NormOptions,
) -> Result<Var> {
    let [_, width] = x.value().rows();
    if gamma.shape() != [width] {
        return shape(
            "rms_norm",
            "gamma",
            gamma.shape(),
            format!("[{width}] for an input of {:?}", x.shape()),
        );
    }
    if let Some(residual) = residual.filter(|residual| residual.shape() != x.shape()) {
        return shape("rms_norm", "residual", residual.shape(), format!("{:?}", x.shape()));
    }
    on_gpu!(x.value() => {
        let mask = super::dropout::DropoutMask::draw(tape, options.dropout)?;
        let epsilon = options.epsilon;
        let norm = crate::cuda::ops::norm::Norm { x, residual, gamma, beta: None, mask, epsilon };
        Ok(norm.forward(tape))
    });
    let x = dropout(tape, x, options.dropout)?;
    let h = residual.map_or(Ok(x.clone()), |residual| add(tape, residual, &x))?;
    let mut y = Tensor::uninit(h.shape());
    let (from, scales) = (h.value().data(), gamma.value().data());
    parallel::rows(y.data_mut(), width, |first, block| {
        let start = first * width;
        normalise(block, &from[start..start + block.len()], scales, options.epsilon);
    });
    let saved = RmsNormSaved { h: h.clone(), gamma: gamma.clone(), epsilon: options.epsilon };
    Ok(tape.record(y, &[&h, gamma], move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// Writes rows from h, dy, γ and ε.
type RowWork = fn(&mut [f32], &[f32], &[f32], &[f32], f32);

struct RmsNormSaved {
    h: Var,
    gamma: Var,
    epsilon: f32,
}

impl RmsNormSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let [_, width] = gradient.rows();
        let (dy, h, gamma) = (gradient.data(), self.h.value().data(), self.gamma.value().data());
        let by_rows = |work: RowWork| {
            let mut out = Tensor::uninit(gradient.shape());
            parallel::rows(out.data_mut(), width, |first, block| {
                let range = first * width..first * width + block.len();
                work(block, &h[range.clone()], &dy[range], gamma, self.epsilon);
            });
            out
        };
        if self.gamma.needs_gradient() {
            let products = by_rows(scaled_rows);
            gradients.update(&self.gamma, |out, output| sum_rows(out, products.data(), output));
        }
        if self.h.needs_gradient() {
            gradients.add(&self.h, &by_rows(differentiate));
        }
    }
}

/// 1/√(mean(h²) + ε) of a row.
#[inline(always)]
fn inverse_root(row: &[f32], epsilon: f32) -> f32 {
    1.0 / (sum(row, |x| x * x) / row.len() as f32 + epsilon).sqrt()
}

vectorised! {
    fn normalise(out: &mut [f32], h: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        for (out, h) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)) {
            let inverse = inverse_root(h, epsilon);
            for index in 0..width {
                out[index] = h[index] * inverse * gamma[index];
            }
        }
    }
}

vectorised! {
    /// dy·n for each row, whose column sums are dγ.
    fn scaled_rows(out: &mut [f32], h: &[f32], dy: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        for ((out, h), dy) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)).zip(dy.chunks_exact(width)) {
            let inverse = inverse_root(h, epsilon);
            for index in 0..width {
                out[index] = dy[index] * (h[index] * inverse);
            }
        }
    }
}

vectorised! {
    fn differentiate(out: &mut [f32], h: &[f32], dy: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        for ((out, h), dy) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)).zip(dy.chunks_exact(width)) {
            let inverse = inverse_root(h, epsilon);
            let mean = sum3(gamma, dy, h, |gamma, dy, h| gamma * dy * (h * inverse)) / width as f32;
            for index in 0..width {
                out[index] = (gamma[index] * dy[index] - h[index] * inverse * mean) * inverse;
            }
        }
    }
}
