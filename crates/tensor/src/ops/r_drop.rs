//! R-Drop loss: cross-entropy of two passes with different dropout, plus the divergence between them.
//!
//! Liang et al. 2021 (R-Drop). With p and q the softmax of a position's logits in the first and in the second pass:
//! loss = mean cross-entropy of both passes + α · mean over positions of ½ (KL(p‖q) + KL(q‖p)). With d = ln p − ln q =
//! (y − z) − (logsumexp(y) − logsumexp(z)), KL(p‖q) = Σ p d. Backward, for the first pass: ½ (p (d − KL(p‖q)) + p − q)
//! plus the gradient of the cross-entropy; for the second with p and q exchanged. No distribution is saved: the
//! backward pass needs four values per position.

use rayon::prelude::*;

use super::cross_entropy::{CrossEntropyOptions, row_loss};
use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, sum2, vectorised};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Options of the R-Drop loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RDropOptions {
    /// Weight α of the divergence. Default: 2.5, which is the paper's 5 for translation: the paper adds the
    /// cross-entropies of the two passes, this is their mean.
    pub weight: f32,
    /// Label smoothing and ignored ids, for both terms. Default: none.
    pub cross_entropy: CrossEntropyOptions,
}

impl Default for RDropOptions {
    fn default() -> Self {
        Self { weight: 2.5, cross_entropy: CrossEntropyOptions::default() }
    }
}

/// The loss and its terms.
#[derive(Debug, Clone)]
pub struct RDrop {
    /// Cross-entropy + α · divergence: the scalar to differentiate.
    pub loss: Var,
    /// Mean cross-entropy of both passes, with label smoothing; a scalar.
    pub cross_entropy: Tensor,
    /// Mean of ½ (KL(p‖q) + KL(q‖p)), without α; a scalar.
    pub divergence: Tensor,
}

/// Results of one position in the forward pass.
#[derive(Clone, Copy)]
pub(super) struct RDropPosition {
    /// Cross-entropy of each pass.
    losses: [f32; 2],
    /// logsumexp of each pass; infinite for an ignored position.
    logsumexp: [f32; 2],
    /// KL(p‖q) and KL(q‖p).
    divergence: [f32; 2],
}

/// Factors of a position's gradient: dloss/d(cross-entropy) of one pass, dloss/d(KL) and ε.
#[derive(Clone, Copy)]
pub(super) struct RDropWeights {
    pub(super) cross_entropy: f32,
    pub(super) divergence: f32,
    pub(super) smoothing: f32,
}

/// Loss of `logits` (… × vocab_size), the rows of the first pass followed by those of the second, against one id per
/// position; 0 if all positions are ignored. With α = 0 it has the bits of `cross_entropy` with the ids repeated.
///
/// # Errors
/// If there are not two rows per id, an id is outside the vocabulary, or α is negative.
pub fn r_drop(tape: &Tape, logits: &Var, targets: &Indices, options: RDropOptions) -> Result<RDrop> {
    on_gpu!(logits.value() => {
        options.check_shapes(logits.value().rows()[0], targets.len())?;
        Ok(crate::cuda::ops::r_drop::r_drop(tape, logits, targets, options))
    });
    let count = options.check(logits.value().rows(), targets.host())?;
    let [_, vocab_size] = logits.value().rows();
    let RDropOptions { weight: alpha, cross_entropy: options } = options;
    let (first, second) = logits.value().data().split_at(targets.len() * vocab_size);
    let each: Vec<RDropPosition> = targets
        .host()
        .par_iter()
        .enumerate()
        .with_min_len(4)
        .map(|(index, &id)| {
            let range = index * vocab_size..(index + 1) * vocab_size;
            let id = options.counts(id).then_some(id as usize);
            RDropPosition::new([&first[range.clone()], &second[range]], id, options.label_smoothing)
        })
        .collect();
    let [loss, cross_entropy, divergence] = means(&each, alpha, count);
    let (input, targets) = (logits.clone(), targets.clone());
    let loss = tape.record(Tensor::scalar(loss), &[logits], move |gradient, gradients| {
        let share = gradient.data()[0] / (2 * count).max(1) as f32;
        let smoothing = options.label_smoothing;
        let weights = RDropWeights { cross_entropy: share, divergence: alpha * share, smoothing };
        let node = input.node_only();
        let (mut out, source) = input.into_value().into_writable();
        backward(&mut out, source.as_ref(), |index, logits| {
            each[index].backward(logits, targets.host()[index], weights);
        });
        gradients.add(&node, &out);
    });
    let [cross_entropy, divergence] = [cross_entropy, divergence].map(Tensor::scalar);
    Ok(RDrop { loss, cross_entropy, divergence })
}

impl RDropOptions {
    /// Number of positions that are not ignored; checks that there are two rows per id and that the options are valid.
    pub(super) fn check(&self, [rows, vocab_size]: [usize; 2], targets: &[u32]) -> Result<usize> {
        self.check_shapes(rows, targets.len())?;
        self.cross_entropy.rows_that_count("r_drop", targets, vocab_size)
    }

    /// Checks that there are two rows per id and that the options are valid.
    pub(super) fn check_shapes(&self, rows: usize, n_targets: usize) -> Result<()> {
        if rows != 2 * n_targets {
            return shape("r_drop", "targets", &[n_targets], format!("[{}], one for two rows", rows / 2));
        }
        if !(self.weight >= 0.0 && self.weight.is_finite()) {
            let found = f64::from(self.weight);
            return Err(Error::Value { operation: "r_drop", name: "weight", found, expected: "0 or more" });
        }
        self.cross_entropy.check_smoothing("r_drop")
    }
}

/// Loss, cross-entropy and divergence.
pub(super) fn means(each: &[RDropPosition], alpha: f32, count: usize) -> [f32; 3] {
    // In f64 and in the order of the rows, as in the cross-entropy.
    let losses = [0, 1].map(|pass| each.iter().map(move |position| f64::from(position.losses[pass])));
    let cross_entropy =
        losses.into_iter().flatten().fold(0.0, |sum, loss| sum + loss) / (2 * count).max(1) as f64;
    let halves = each.iter().map(|RDropPosition { divergence: [p, q], .. }| f64::from(0.5 * (p + q)));
    let divergence = halves.fold(0.0, |sum, half| sum + half) / count.max(1) as f64;
    // An infinite divergence of weight 0 adds nothing.
    let penalty = if alpha == 0.0 { 0.0 } else { f64::from(alpha) * divergence };
    [cross_entropy + penalty, cross_entropy, divergence].map(|number| number as f32)
}

impl RDropPosition {
    /// Computes the forward results from the logits of both passes; zeros without a target id.
    pub(super) fn new([y, z]: [&[f32]; 2], id: Option<usize>, smoothing: f32) -> Self {
        let Some(id) = id else {
            return Self { losses: [0.0; 2], logsumexp: [f32::INFINITY; 2], divergence: [0.0; 2] };
        };
        let [(first, a), (second, b)] = [row_loss(y, id, smoothing), row_loss(z, id, smoothing)];
        Self { losses: [first, second], logsumexp: [a, b], divergence: divergences(y, z, [a, b]) }
    }

    /// Overwrites the logits of both passes with their gradients.
    pub(super) fn backward(self, [y, z]: [&mut [f32]; 2], target: u32, weights: RDropWeights) {
        if self.logsumexp == [f32::INFINITY; 2] {
            y.fill(0.0);
            return z.fill(0.0);
        }
        position_gradient(y, z, self, weights);
        for (row, logsumexp) in [y, z].into_iter().zip(self.logsumexp) {
            if logsumexp.is_finite() {
                row[target as usize] -= weights.cross_entropy * (1.0 - weights.smoothing);
            }
        }
    }
}

/// Calls `work` to overwrite the logits of each position in both passes; they are in `out`, or read from `source`.
fn backward(out: &mut Tensor, source: Option<&Tensor>, work: impl Fn(usize, [&mut [f32]; 2]) + Sync) {
    let [rows, vocab_size] = out.rows();
    if out.is_empty() {
        return;
    }
    let half = rows / 2 * vocab_size;
    let (first, second) = out.data_mut().split_at_mut(half);
    let pairs = first.par_chunks_exact_mut(vocab_size).zip(second.par_chunks_exact_mut(vocab_size));
    pairs.enumerate().with_min_len(2).for_each(|(index, (y, z))| {
        if let Some(source) = source {
            let start = index * vocab_size;
            y.copy_from_slice(&source.data()[start..start + vocab_size]);
            z.copy_from_slice(&source.data()[half + start..half + start + vocab_size]);
        }
        work(index, [y, z]);
    });
}

/// p · d, which is 0 where p = 0, even if d is infinite.
#[inline(always)]
fn weighed(p: f32, d: f32) -> f32 {
    if p == 0.0 { 0.0 } else { p * d }
}

vectorised! {
    /// KL(p‖q) and KL(q‖p) from the logits of both.
    fn divergences(y: &[f32], z: &[f32], logsumexp: [f32; 2]) -> [f32; 2] {
        let [a, b] = logsumexp;
        let shift = a - b;
        [
            sum2(y, z, |y, z| weighed(exp(y - a), (y - z) - shift)),
            sum2(y, z, |y, z| weighed(exp(z - b), shift - (y - z))),
        ]
    }
}

vectorised! {
    /// Overwrites the logits of both passes with their gradients, except for the term of the target id.
    fn position_gradient(y: &mut [f32], z: &mut [f32], position: RDropPosition, weights: RDropWeights) {
        let RDropPosition { logsumexp: [a, b], divergence: [forth, back], .. } = position;
        let shift = a - b;
        let (share, kl) = (weights.cross_entropy, weights.divergence);
        let floor = share * weights.smoothing / y.len() as f32;
        for (y, z) in y.iter_mut().zip(z) {
            let (p, q) = (exp(*y - a), exp(*z - b));
            let d = (*y - *z) - shift;
            *y = (share * p - floor) + kl * (weighed(p, d - forth) + (p - q));
            *z = (share * q - floor) + kl * (weighed(q, -d - back) + (q - p));
        }
    }
}
