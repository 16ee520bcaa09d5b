//! The loss of a classifier over a vocabulary: cross-entropy of softmax(logits) with smoothed targets.
//!
//! Szegedy et al. 2016: the target distribution is 1 − ε on the right id plus ε/V everywhere. For a row with logits z and
//! right id t: loss = logsumexp(z) − (1 − ε) z_t − ε·mean(z). The result is the mean over rows that count; rows whose id
//! is ignored count nothing. No one-hot matrix is made. Back: dz = (softmax(z) − target) / count.

use rayon::prelude::*;

use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, ln, max, sum, vectorised};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// How the loss is taken.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossEntropyOptions {
    /// ε: what the right id gives to all; 0.
    pub label_smoothing: f32,
    /// Rows with this id do not count; none.
    pub ignored_id: Option<u32>,
}

impl CrossEntropyOptions {
    /// Whether a row with this right id counts.
    pub(super) fn counts(&self, id: u32) -> bool {
        Some(id) != self.ignored_id
    }

    /// How many rows count, if every id that does is in the vocabulary and ε is a share.
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

    /// Whether ε is a share.
    pub(super) fn check_smoothing(&self, operation: &'static str) -> Result<()> {
        if (0.0..=1.0).contains(&self.label_smoothing) {
            return Ok(());
        }
        let found = f64::from(self.label_smoothing);
        Err(Error::Value { operation, name: "label_smoothing", found, expected: "0 to 1" })
    }
}

/// The mean loss of `logits` (… × vocab_size) against one id a row; 0 if no row counts.
///
/// # Errors
/// If there are not as many ids as rows, or an id is outside the vocabulary.
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
        let place = input.place();
        let (mut out, source) = input.into_value().into_writable();
        parallel::rows(out.data_mut(), vocab_size, |first, block| {
            if let Some(source) = &source {
                let start = first * vocab_size;
                block.copy_from_slice(&source.data()[start..start + block.len()]);
            }
            for (offset, out) in block.chunks_exact_mut(vocab_size).enumerate() {
                let row = first + offset;
                go_back(out, targets.host()[row], each[row].1, [weight, smoothing]);
            }
        });
        gradients.add(&place, &out);
    }))
}

vectorised! {
    /// The loss of one row and the logarithm of its Σ eᶻ.
    pub(super) fn row_loss(logits: &[f32], target: usize, smoothing: f32) -> (f32, f32) {
        let largest = max(logits);
        let total = sum(logits, |logit| exp(logit - largest));
        let logsumexp = largest + ln(total);
        let mean = if smoothing == 0.0 { 0.0 } else { sum(logits, |logit| logit) / logits.len() as f32 };
        (logsumexp - (1.0 - smoothing) * logits[target] - smoothing * mean, logsumexp)
    }
}

/// Turns a row of logits into its gradient; `weights` = [1 / count, ε].
pub(super) fn go_back(row: &mut [f32], target: u32, logsumexp: f32, weights: [f32; 2]) {
    row_gradient(row, logsumexp, weights);
    if logsumexp.is_finite() {
        row[target as usize] -= weights[0] * (1.0 - weights[1]);
    }
}

vectorised! {
    /// Logits become softmax(z) − ε/V, times `weights` = [1 / count, ε]; zeros for an ignored row.
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
