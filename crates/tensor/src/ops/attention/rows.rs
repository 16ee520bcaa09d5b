//! Rows of scores: softmax over the visible keys, and its derivative.

use std::ops::Range;

use crate::lanes::{exp, ln, max, sum, sum2, vectorised};

/// The columns of a row of scores that its query attends to.
#[derive(Debug, Clone, Copy)]
pub(super) enum VisibleColumns<'a> {
    /// One range.
    One(usize, usize),
    /// Several, up to the limit.
    Several(&'a [Range<u32>], usize),
}

impl VisibleColumns<'_> {
    /// The ranges in order, none empty.
    fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let (one, several, limit) = match self {
            Self::One(start, end) => (Some(start..end), &[][..], usize::MAX),
            Self::Several(ranges, limit) => (None, ranges, limit),
        };
        let several = several.iter().map(move |range| range.start as usize..(range.end as usize).min(limit));
        one.into_iter().chain(several).filter(|range| range.start < range.end)
    }
}

/// Turns the visible scores into weights and the others into 0; returns the logsumexp, ∞ if none is visible.
///
/// Weights are summed in the order of the visible keys, whatever their columns.
pub(super) fn softmax(scores: &mut [f32], seen: VisibleColumns<'_>, scratch: &mut Vec<f32>) -> f32 {
    if let VisibleColumns::One(start, end) = seen {
        scores[..start].fill(0.0);
        scores[end..].fill(0.0);
        return softmax_all(&mut scores[start..end]);
    }
    scratch.clear();
    seen.ranges().for_each(|range| scratch.extend_from_slice(&scores[range]));
    scores.fill(0.0);
    let logsumexp = softmax_all(scratch);
    let mut rest = scratch.as_slice();
    for range in seen.ranges() {
        let (weights, after) = rest.split_at(range.len());
        scores[range].copy_from_slice(weights);
        rest = after;
    }
    logsumexp
}

/// Recomputes the weights from the scores and their logsumexp.
pub(super) fn recompute_weights(scores: &mut [f32], seen: VisibleColumns<'_>, logsumexp: f32) {
    let mut done = 0;
    for range in seen.ranges() {
        scores[done..range.start].fill(0.0);
        done = range.end;
        exponentials(&mut scores[range], logsumexp);
    }
    scores[done..].fill(0.0);
}

vectorised! {
    fn softmax_all(scores: &mut [f32]) -> f32 {
        if scores.is_empty() {
            return f32::INFINITY;
        }
        let largest = max(scores);
        for score in scores.iter_mut() {
            *score = exp(*score - largest);
        }
        let total = sum(scores, |weight| weight);
        let inverse = 1.0 / total;
        for weight in scores.iter_mut() {
            *weight *= inverse;
        }
        largest + ln(total)
    }
}

vectorised! {
    fn exponentials(scores: &mut [f32], logsumexp: f32) {
        for score in scores {
            *score = exp(*score - logsumexp);
        }
    }
}

vectorised! {
    /// factor · numbers.
    pub(super) fn scale(numbers: &mut [f32], factor: f32) {
        for number in numbers {
            *number *= factor;
        }
    }
}

vectorised! {
    /// scale · P ∘ (dP − Σ P ∘ dP) in place of dP.
    pub(super) fn differentiate(gradient: &mut [f32], weights: &[f32], scale: f32) {
        let mean = sum2(weights, gradient, |weight, gradient| weight * gradient);
        for (gradient, weight) in gradient.iter_mut().zip(weights) {
            *gradient = scale * weight * (*gradient - mean);
        }
    }
}
