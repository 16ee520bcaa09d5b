//! Softmax over the last axis: y = eˣ / Σ eˣ, and its logarithm x − ln Σ eˣ, both shifted by the largest x first.
//!
//! Bridle 1990. Backward: dx = y ∘ (dy − Σ y ∘ dy) for softmax, dx = dy − eʸ · Σ dy for the logarithm. A row of only −∞
//! gives zeros, and −∞ as the logarithm.

use crate::lanes::{exp, ln, max, sum, sum2, vectorised};
use crate::parallel;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Softmax over the last axis of x; the result has the shape of x.
pub fn softmax(tape: &Tape, x: &Var) -> Var {
    on_gpu!(x.value() => {
        use crate::cuda::ops::softmax::{SoftmaxKind, softmax};
        softmax(tape, x, SoftmaxKind::Softmax)
    });
    let y = by_rows(x.value(), x.value(), |out, x, _, width| softmax_rows(out, x, width));
    let (input, saved) = (x.clone(), y.clone());
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&input, &by_rows(gradient, &saved, softmax_back));
    })
}

/// The logarithm of the softmax over the last axis of x; the result has the shape of x.
pub fn log_softmax(tape: &Tape, x: &Var) -> Var {
    on_gpu!(x.value() => {
        use crate::cuda::ops::softmax::{SoftmaxKind, softmax};
        softmax(tape, x, SoftmaxKind::Logarithm)
    });
    let y = by_rows(x.value(), x.value(), |out, x, _, width| log_softmax_rows(out, x, width));
    let (input, saved) = (x.clone(), y.clone());
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&input, &by_rows(gradient, &saved, log_softmax_back));
    })
}

/// Returns the tensor whose blocks of rows `work` writes from those of `a` and `b`, of the same shape.
fn by_rows(a: &Tensor, b: &Tensor, work: impl Fn(&mut [f32], &[f32], &[f32], usize) + Sync) -> Tensor {
    let [_, width] = a.rows();
    let mut out = Tensor::uninit(a.shape());
    let (a, b) = (a.data(), b.data());
    parallel::rows(out.data_mut(), width, |first, out| {
        let range = first * width..first * width + out.len();
        work(out, &a[range.clone()], &b[range], width);
    });
    out
}

/// Subtracted before exponentiation: the largest value, or 0 if all are −∞.
#[inline(always)]
fn shift(x: &[f32]) -> f32 {
    let largest = max(x);
    if largest == f32::NEG_INFINITY { 0.0 } else { largest }
}

vectorised! {
    fn softmax_rows(out: &mut [f32], x: &[f32], width: usize) {
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let shift = shift(x);
            for index in 0..width {
                out[index] = exp(x[index] - shift);
            }
            let total = sum(out, |x| x);
            let inverse = if total == 0.0 { 0.0 } else { 1.0 / total };
            for number in out {
                *number *= inverse;
            }
        }
    }
}

vectorised! {
    pub(super) fn log_softmax_rows(out: &mut [f32], x: &[f32], width: usize) {
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let shift = shift(x);
            let total = sum(x, |x| exp(x - shift));
            let log = if total == 0.0 { 0.0 } else { ln(total) };
            for index in 0..width {
                out[index] = x[index] - shift - log;
            }
        }
    }
}

vectorised! {
    fn softmax_back(out: &mut [f32], dy: &[f32], y: &[f32], width: usize) {
        for ((out, dy), y) in out.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(y.chunks_exact(width)) {
            let mean = sum2(y, dy, |y, dy| y * dy);
            for index in 0..width {
                out[index] = y[index] * (dy[index] - mean);
            }
        }
    }
}

vectorised! {
    fn log_softmax_back(out: &mut [f32], dy: &[f32], y: &[f32], width: usize) {
        for ((out, dy), y) in out.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(y.chunks_exact(width)) {
            let total = sum(dy, |dy| dy);
            for index in 0..width {
                out[index] = dy[index] - exp(y[index]) * total;
            }
        }
    }
}
