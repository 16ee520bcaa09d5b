//! A gated activation: y = act(g) ∘ u, with the gate g in the first half of the last axis and u in the second.
//!
//! Dauphin et al. 2017 (GLU), Shazeer 2020 (SwiGLU with SiLU, GEGLU with GELU). Backward: dg = dy ∘ u ∘ act′(g), du = dy ∘ act(g);
//! the input is saved.

use super::activation::{Activation, with_function};
use crate::error::shape;
use crate::lanes::vectorised;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// act(first half) ∘ second half of the last axis: … × 2·width → … × width.
///
/// # Errors
/// If the last axis is not even.
pub fn gated(tape: &Tape, x: &Var, activation: Activation) -> Result<Var> {
    let both = x.shape().last().copied().unwrap_or(0);
    if both == 0 || !both.is_multiple_of(2) {
        return shape("gated", "x", x.shape(), "an even last axis");
    }
    on_gpu!(x.value() => Ok(crate::cuda::ops::gated::gated(tape, x, activation)));
    let width = both / 2;
    let mut out_shape = x.shape().to_vec();
    *out_shape.last_mut().expect("checked above") = width;
    let mut y = Tensor::uninit(&out_shape);
    let from = x.value().data();
    parallel::rows(y.data_mut(), width, |first, block| {
        let start = 2 * first * width;
        forward(block, &from[start..start + 2 * block.len()], width, activation);
    });
    let input = x.clone();
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        let mut out = Tensor::uninit(input.shape());
        let (from, dy) = (input.value().data(), gradient.data());
        parallel::rows(out.data_mut(), both, |first, block| {
            let (start, half) = (first * both, first * width);
            let dy = &dy[half..half + block.len() / 2];
            backward(block, &from[start..start + block.len()], dy, width, activation);
        });
        gradients.add(&input, &out);
    }))
}

vectorised! {
    fn forward(out: &mut [f32], x: &[f32], width: usize, activation: Activation) {
        with_function!(activation, f => {
            for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(2 * width)) {
                let (gate, other) = x.split_at(width);
                for index in 0..width {
                    out[index] = f(gate[index]).0 * other[index];
                }
            }
        });
    }
}

vectorised! {
    fn backward(out: &mut [f32], x: &[f32], dy: &[f32], width: usize, activation: Activation) {
        with_function!(activation, f => {
            let rows = out.chunks_exact_mut(2 * width).zip(x.chunks_exact(2 * width)).zip(dy.chunks_exact(width));
            for ((out, x), dy) in rows {
                let ((gate, other), (d_gate, d_other)) = (x.split_at(width), out.split_at_mut(width));
                for index in 0..width {
                    let (value, slope) = f(gate[index]);
                    d_gate[index] = dy[index] * other[index] * slope;
                    d_other[index] = dy[index] * value;
                }
            }
        });
    }
}
