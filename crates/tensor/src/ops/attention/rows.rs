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

/// A softmax over scores that come in parts: the largest score so far and the sum of exp(score − largest).
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningSoftmax {
    largest: f32,
    total: f32,
}

impl RunningSoftmax {
    pub(super) const EMPTY: Self = Self { largest: f32::NEG_INFINITY, total: 0.0 };

    /// Turns the first `seen` of the next scores into exp(score − largest) and the others into 0; returns the factor for what was
    /// made of earlier parts.
    pub(super) fn add(&mut self, scores: &mut [f32], seen: usize) -> f32 {
        let (scores, hidden) = scores.split_at_mut(seen);
        hidden.fill(0.0);
        let largest = self.largest.max(largest_of(scores));
        if largest == f32::NEG_INFINITY {
            scores.fill(0.0);
            return 1.0;
        }
        let factor = exp(self.largest - largest);
        exponentials(scores, largest);
        *self = Self { largest, total: self.total * factor + sum_of(scores) };
        factor
    }

    /// The factor that turns sums over all parts into averages; 0 if nothing was visible.
    pub(super) fn inverse_total(self) -> f32 {
        if self.total == 0.0 { 0.0 } else { 1.0 / self.total }
    }

    /// ∞ if nothing was visible.
    pub(super) fn logsumexp(self) -> f32 {
        if self.total == 0.0 { f32::INFINITY } else { self.largest + ln(self.total) }
    }
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
    fn largest_of(scores: &[f32]) -> f32 {
        max(scores)
    }
}

vectorised! {
    fn sum_of(weights: &[f32]) -> f32 {
        sum(weights, |weight| weight)
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
    /// Σ a ∘ b.
    pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
        sum2(a, b, |a, b| a * b)
    }
}

vectorised! {
    /// scale · P ∘ (dP − mean) in place of dP, where mean is Σ P ∘ dP.
    pub(super) fn differentiate(gradient: &mut [f32], weights: &[f32], mean: f32, scale: f32) {
        for (gradient, weight) in gradient.iter_mut().zip(weights) {
            *gradient = scale * weight * (*gradient - mean);
        }
    }
}
