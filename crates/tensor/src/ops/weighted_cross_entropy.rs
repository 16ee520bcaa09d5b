//! Cross-entropy with a weight for each class, for labels of unequal frequency.
//!
//! As in PyTorch's `CrossEntropyLoss(weight=…, label_smoothing=ε)`: for a row with logits z, log-probabilities
//! ℓ = z − logsumexp(z) and target t, loss = −(1 − ε) w_t ℓ_t − (ε/V) Σ_c w_c ℓ_c. The result is the sum over all rows but those whose
//! target is ignored, divided by their Σ w_t. Backward, with W = Σ_c w_c and softmax p:
//! dz_c = ((1 − ε) w_t (p_c − [c = t]) + (ε/V) (W p_c − w_c)) / Σ w_t.

use rayon::prelude::*;

use super::cross_entropy::CrossEntropyOptions;
use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, ln, max, sum, vectorised};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// The weight of each class: the bits of f32 numbers, so that they travel with the ids of a batch and a recorded step reads
/// those of its own batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassWeights(Indices);

impl ClassWeights {
    /// Weights in the order of the classes.
    pub fn new(weights: &[f32]) -> Self {
        Self(weights.iter().map(|weight| weight.to_bits()).collect())
    }

    /// The bits, as a list of a batch.
    pub fn bits(&self) -> &Indices {
        &self.0
    }

    /// Weights whose bits are in a list, which may be on a GPU.
    pub fn from_bits(bits: Indices) -> Self {
        Self(bits)
    }

    /// The numbers.
    fn host(&self) -> Vec<f32> {
        self.0.host().iter().map(|&bits| f32::from_bits(bits)).collect()
    }
}

/// Weighted mean loss of `logits` (… × n_classes) against one target id per row; 0 if all rows are ignored.
///
/// # Errors
/// If the number of ids is not the number of rows, that of the weights not that of the classes, or an id is no class.
pub fn weighted_cross_entropy(
    tape: &Tape,
    logits: &Var,
    targets: &Indices,
    weights: &ClassWeights,
    options: CrossEntropyOptions,
) -> Result<Var> {
    const NAME: &str = "weighted_cross_entropy";
    let [rows, n_classes] = logits.value().rows();
    if rows != targets.len() {
        return shape(NAME, "targets", &[targets.len()], format!("[{rows}], one a row of logits"));
    }
    if n_classes != weights.0.len() {
        return shape(NAME, "weights", &[weights.0.len()], format!("[{n_classes}], one a class"));
    }
    on_gpu!(logits.value() => {
        options.check_smoothing(NAME)?;
        Ok(crate::cuda::ops::weighted_cross_entropy::weighted_cross_entropy(tape, logits, targets, weights, options))
    });
    options.rows_that_count(NAME, targets.host(), n_classes)?;
    let (weights, data) = (weights.host(), logits.value().data());
    let smoothing = options.label_smoothing / n_classes as f32;
    let part = 1.0 - options.label_smoothing;
    // (loss, logsumexp) of each row.
    let each: Vec<(f32, f32)> = targets
        .host()
        .par_iter()
        .enumerate()
        .with_min_len(8)
        .map(|(row, &id)| {
            let row = &data[row * n_classes..(row + 1) * n_classes];
            if !options.counts(id) {
                return (0.0, f32::INFINITY);
            }
            let logsumexp = logsumexp(row);
            let mut loss = part * weights[id as usize] * (logsumexp - row[id as usize]);
            if smoothing > 0.0 {
                let all = row.iter().zip(&weights).map(|(logit, weight)| weight * (logsumexp - logit));
                loss += smoothing * all.sum::<f32>();
            }
            (loss, logsumexp)
        })
        .collect();
    // In f64 and in the order of the rows: exact enough, and the same for any number of threads.
    let losses: f64 = each.iter().map(|&(loss, _)| f64::from(loss)).sum();
    let counted = targets.host().iter().filter(|&&id| options.counts(id));
    let total: f64 = counted.map(|&id| f64::from(weights[id as usize])).sum();
    let mean = if total == 0.0 { 0.0 } else { (losses / total) as f32 };
    let (input, targets) = (logits.clone(), targets.clone());
    Ok(tape.record(Tensor::scalar(mean), &[logits], move |gradient, gradients| {
        let scale = if total == 0.0 { 0.0 } else { (f64::from(gradient.data()[0]) / total) as f32 };
        let sum: f32 = weights.iter().sum();
        let node = input.node_only();
        let (mut out, source) = input.into_value().into_writable();
        parallel::rows(out.data_mut(), n_classes, |first, block| {
            if let Some(source) = &source {
                let start = first * n_classes;
                block.copy_from_slice(&source.data()[start..start + block.len()]);
            }
            for (offset, row) in block.chunks_exact_mut(n_classes).enumerate() {
                let (id, logsumexp) = (targets.host()[first + offset], each[first + offset].1);
                if logsumexp == f32::INFINITY {
                    row.fill(0.0);
                    continue;
                }
                let right = scale * part * weights[id as usize];
                let all = right + scale * smoothing * sum;
                for (number, weight) in row.iter_mut().zip(&weights) {
                    *number = all * exp(*number - logsumexp) - scale * smoothing * weight;
                }
                row[id as usize] -= right;
            }
        });
        gradients.add(&node, &out);
    }))
}

vectorised! {
    fn logsumexp(row: &[f32]) -> f32 {
        let largest = max(row);
        largest + ln(sum(row, |logit| exp(logit - largest)))
    }
}
