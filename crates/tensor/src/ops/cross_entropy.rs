//! Cross-entropy loss over a vocabulary, of softmax(logits) with label smoothing.
//!
//! Szegedy et al. 2016: the target distribution is 1 − ε on the target id plus ε/V everywhere. For a row with logits z
//! and target id t: loss = logsumexp(z) − (1 − ε) z_t − ε·mean(z). The result is the mean over all rows but those whose
//! target is ignored. No one-hot matrix is built. Backward: dz = (softmax(z) − target) / count.

use rayon::prelude::*;

use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, ln, max, sum, vectorised};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// Options of the cross-entropy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossEntropyOptions {
    /// Label smoothing ε: probability mass spread over all ids. Default: 0.
    pub label_smoothing: f32,
    /// Rows with this target id are ignored. Default: none.
    pub ignored_id: Option<u32>,
}

impl CrossEntropyOptions {
    /// True if a row with this target id is not ignored.
    pub(super) fn counts(&self, id: u32) -> bool {
        Some(id) != self.ignored_id
    }

    /// Number of rows that are not ignored; checks that their ids are in the vocabulary and ε is between 0 and 1.
    pub(super) fn rows_that_count(
        &self,
        operation: &'static str,
        targets: &[u32],
        vocab_size: usize,
    ) -> Result<usize> {
        let outside = |&(_, &id): &(usize, &u32)| self.counts(id) && id as usize >= vocab_size;
        if let Some((position, &id)) = targets.iter().enumerate().find(outside) {
            return Err(Error::Id { operation, id, position, vocab_size });
        }
        self.check_smoothing(operation)?;
        Ok(targets.iter().filter(|&&id| self.counts(id)).count())
    }

    /// Checks that ε is between 0 and 1.
    pub(super) fn check_smoothing(&self, operation: &'static str) -> Result<()> {
        if (0.0..=1.0).contains(&self.label_smoothing) {
            return Ok(());
        }
        let found = f64::from(self.label_smoothing);
        Err(Error::Value { operation, name: "label_smoothing", found, expected: "0 to 1" })
    }
}

/// Mean loss of `logits` (… × vocab_size) against one target id per row; 0 if all rows are ignored.
///
/// # Errors
/// If the number of ids is not the number of rows, or an id is outside the vocabulary.
pub fn cross_entropy(
    tape: &Tape,
    logits: &Var,
    targets: &Indices,
    options: CrossEntropyOptions,
) -> Result<Var> {
    let [rows, vocab_size] = logits.value().rows();
    if rows != targets.len() {
        return shape("cross_entropy", "targets", &[targets.len()], format!("[{rows}], one a row of logits"));
    }
    on_gpu!(logits.value() => {
        options.check_smoothing("cross_entropy")?;
        Ok(crate::cuda::ops::cross_entropy::cross_entropy(tape, logits, targets, options))
    });
    let count = options.rows_that_count("cross_entropy", targets.host(), vocab_size)?;
    let smoothing = options.label_smoothing;
    let data = logits.value().data();
    // (loss, logsumexp) of each row.
    let each: Vec<(f32, f32)> = targets
        .host()
        .par_iter()
        .enumerate()
        .with_min_len(8)
        .map(|(row, &id)| {
            let row = &data[row * vocab_size..(row + 1) * vocab_size];
            if options.counts(id) { row_loss(row, id as usize, smoothing) } else { (0.0, f32::INFINITY) }
        })
        .collect();
    // In f64 and in the order of the rows: exact enough, and the same for any number of threads.
    let total: f64 = each.iter().map(|&(loss, _)| f64::from(loss)).sum();
    let mean = if count == 0 { 0.0 } else { (total / count as f64) as f32 };
    let (input, targets) = (logits.clone(), targets.clone());
    Ok(tape.record(Tensor::scalar(mean), &[logits], move |gradient, gradients| {
        let weight = gradient.data()[0] / count.max(1) as f32;
        let node = input.node_only();
        let (mut out, source) = input.into_value().into_writable();
        parallel::rows(out.data_mut(), vocab_size, |first, block| {
            if let Some(source) = &source {
                let start = first * vocab_size;
                block.copy_from_slice(&source.data()[start..start + block.len()]);
            }
            for (offset, out) in block.chunks_exact_mut(vocab_size).enumerate() {
                let row = first + offset;
                backward(out, targets.host()[row], each[row].1, [weight, smoothing]);
            }
        });
        gradients.add(&node, &out);
    }))
}

vectorised! {
    /// Loss of one row and its logsumexp.
    pub(super) fn row_loss(logits: &[f32], target: usize, smoothing: f32) -> (f32, f32) {
        let largest = max(logits);
        let total = sum(logits, |logit| exp(logit - largest));
        let logsumexp = largest + ln(total);
        let mean = if smoothing == 0.0 { 0.0 } else { sum(logits, |logit| logit) / logits.len() as f32 };
        (logsumexp - (1.0 - smoothing) * logits[target] - smoothing * mean, logsumexp)
    }
}

/// Overwrites a row of logits with its gradient; `weights` = [1 / count, ε].
pub(super) fn backward(row: &mut [f32], target: u32, logsumexp: f32, weights: [f32; 2]) {
    row_gradient(row, logsumexp, weights);
    if logsumexp.is_finite() {
        row[target as usize] -= weights[0] * (1.0 - weights[1]);
    }
}

vectorised! {
    /// Overwrites logits with softmax(z) − ε/V, times `weights` = [1 / count, ε]; zeros for an ignored row.
    fn row_gradient(row: &mut [f32], logsumexp: f32, weights: [f32; 2]) {
        let [weight, smoothing] = weights;
        let floor = weight * smoothing / row.len() as f32;
        if logsumexp == f32::INFINITY {
            row.fill(0.0);
            return;
        }
        for number in row {
            *number = weight * exp(*number - logsumexp) - floor;
        }
    }
}
