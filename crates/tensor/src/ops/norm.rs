//! Layer normalisation, with the residual connection and dropout that precede it in a Transformer.
//!
//! Ba, Kiros & Hinton 2016: y = γ (h − μ)/√(σ² + ε) + β over the last axis, here with h = residual + dropout(x). Saved
//! for the backward pass: h. With n the normalised row and g = γ·dy: dh = (g − mean(g) − n·mean(g·n)) / √(σ² + ε), dγ =
//! Σ dy·n, dβ = Σ dy.

use super::dropout::DropoutMask;
use crate::error::shape;
use crate::gemm::Output;
use crate::lanes::{add_assign, sum, sum2, sum3, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Options of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormOptions {
    /// Added to the variance. Default: 1e-5.
    pub epsilon: f32,
    /// Probability of dropping a value of x before the residual is added, in training. Default: 0.
    pub dropout: f32,
}

impl Default for NormOptions {
    fn default() -> Self {
        Self { epsilon: 1e-5, dropout: 0.0 }
    }
}

/// LayerNorm(residual + dropout(x)), or of x alone without a residual. γ and β have the width of the last axis.
///
/// # Errors
/// If the shapes do not fit together.
pub fn layer_norm(
    tape: &Tape,
    x: &Var,
    residual: Option<&Var>,
    [gamma, beta]: [&Var; 2],
    options: NormOptions,
) -> Result<Var> {
    let [_, width] = x.value().rows();
    for (name, scale) in [("gamma", gamma), ("beta", beta)] {
        if scale.shape() != [width] {
            return shape("layer_norm", name, scale.shape(), format!("[{width}]"));
        }
    }
    if let Some(residual) = residual.filter(|residual| residual.shape() != x.shape()) {
        return shape("layer_norm", "residual", residual.shape(), format!("{:?}", x.shape()));
    }
    let mask = DropoutMask::draw(tape, options.dropout)?;
    on_gpu!(x.value() => {
        let norm = crate::cuda::ops::norm::Norm {
            x,
            residual,
            gamma,
            beta: Some(beta),
            mask,
            epsilon: options.epsilon,
        };
        Ok(norm.forward(tape))
    });
    let mut h = Tensor::uninit(x.shape());
    let (from, other) = (x.value().data(), residual.map(|residual| residual.value().data()));
    parallel::rows(h.data_mut(), width, |first, block| {
        let start = first * width;
        block.copy_from_slice(&from[start..start + block.len()]);
        if let Some(mask) = mask {
            mask.apply(start, block);
        }
        if let Some(other) = other {
            add_assign(block, &other[start..start + block.len()]);
        }
    });
    let mut y = Tensor::uninit(x.shape());
    let (scales, shifts, sums) = (gamma.value().data(), beta.value().data(), h.data());
    parallel::rows(y.data_mut(), width, |first, block| {
        let start = first * width;
        normalise(block, &sums[start..start + block.len()], [scales, shifts], options.epsilon);
    });
    let saved = LayerNormSaved {
        x: x.clone(),
        residual: residual.cloned(),
        gamma: gamma.clone(),
        beta: beta.clone(),
        h,
        mask,
        epsilon: options.epsilon,
    };
    let inputs: Vec<&Var> = [x, gamma, beta].into_iter().chain(residual).collect();
    Ok(tape.record(y, &inputs, move |gradient, gradients| saved.backward(gradient, gradients)))
}

struct LayerNormSaved {
    x: Var,
    residual: Option<Var>,
    gamma: Var,
    beta: Var,
    h: Tensor,
    mask: Option<DropoutMask>,
    epsilon: f32,
}

impl LayerNormSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let [_, width] = gradient.rows();
        let (dy, h, gamma) = (gradient.data(), self.h.data(), self.gamma.value().data());
        // dy·n, whose column sums are dγ.
        let mut dh = Tensor::uninit(gradient.shape());
        let mut products = Tensor::uninit(gradient.shape());
        parallel::rows(products.data_mut(), width, |first, block| {
            let start = first * width;
            let len = block.len();
            scaled_rows(block, &h[start..start + len], &dy[start..start + len], width, self.epsilon);
        });
        gradients.update(&self.gamma, |out, output| super::linear::sum_rows(out, products.data(), output));
        gradients.update(&self.beta, |out, output| super::linear::sum_rows(out, dy, output));
        parallel::rows(dh.data_mut(), width, |first, block| {
            let start = first * width;
            let len = block.len();
            differentiate(block, &h[start..start + len], &dy[start..start + len], gamma, self.epsilon);
        });
        if let Some(residual) = &self.residual {
            gradients.add(residual, &dh);
        }
        match self.mask {
            None => gradients.add(&self.x, &dh),
            Some(mask) => gradients.update(&self.x, |out, output| {
                let dh = dh.data();
                parallel::elements(out, |start, block| {
                    masked(block, &dh[start..start + block.len()], mask, start, output);
                });
            }),
        }
    }
}

fn masked(out: &mut [f32], dh: &[f32], mask: DropoutMask, start: usize, output: Output) {
    if output == Output::Overwrite {
        out.copy_from_slice(dh);
        mask.apply(start, out);
    } else {
        let mut part = dh.to_vec();
        mask.apply(start, &mut part);
        add_assign(out, &part);
    }
}

/// Mean and 1/√(variance + ε) of a row.
#[inline(always)]
fn moments(row: &[f32], epsilon: f32) -> (f32, f32) {
    let n = row.len() as f32;
    let mean = sum(row, |x| x) / n;
    let variance = sum(row, |x| (x - mean) * (x - mean)) / n;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

vectorised! {
    fn normalise(out: &mut [f32], h: &[f32], scales: [&[f32]; 2], epsilon: f32) {
        let [gamma, beta] = scales;
        let width = gamma.len();
        for (out, h) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)) {
            let (mean, inverse) = moments(h, epsilon);
            for index in 0..width {
                out[index] = (h[index] - mean) * inverse * gamma[index] + beta[index];
            }
        }
    }
}

vectorised! {
    /// dy·n for each row.
    fn scaled_rows(out: &mut [f32], h: &[f32], dy: &[f32], width: usize, epsilon: f32) {
        for ((out, h), dy) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)).zip(dy.chunks_exact(width)) {
            let (mean, inverse) = moments(h, epsilon);
            for index in 0..width {
                out[index] = dy[index] * ((h[index] - mean) * inverse);
            }
        }
    }
}

vectorised! {
    fn differentiate(out: &mut [f32], h: &[f32], dy: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        let n = width as f32;
        for ((out, h), dy) in out.chunks_exact_mut(width).zip(h.chunks_exact(width)).zip(dy.chunks_exact(width)) {
            let (mean, inverse) = moments(h, epsilon);
            let mean_g = sum2(gamma, dy, |gamma, dy| gamma * dy) / n;
            let mean_gn = sum3(gamma, dy, h, |gamma, dy, h| gamma * dy * ((h - mean) * inverse)) / n;
            for index in 0..width {
                let normal = (h[index] - mean) * inverse;
                out[index] = (gamma[index] * dy[index] - mean_g - normal * mean_gn) * inverse;
            }
        }
    }
}
