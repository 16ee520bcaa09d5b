//! The trainer's state: everything besides the weights that a run needs to resume exactly.

use std::cmp::Ordering;

use polyhead_text::batch::DataPosition;
use serde::{Deserialize, Serialize};

use crate::learner::StepReport;

/// The state of a run after a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrainerState {
    /// Steps done.
    pub step: u64,
    /// DataPosition of the next batch.
    pub position: DataPosition,
    /// Factor of the learning rate, halved at each rollback after a divergence.
    pub rate_factor: f64,
    /// Number of rollbacks.
    pub setbacks: u32,
    /// All validations so far, in order.
    pub validations: Vec<ValidationRecord>,
    /// Steps at which a validation was due, with or without validation text: the checkpoints that are averaged. Checkpoints
    /// written because of an interrupt or the clock are not among them, so the finished model does not depend on either.
    pub milestones: Vec<u64>,
    /// True if a validation was postponed because the run was asked to stop; it comes first when the run is resumed.
    #[serde(default)]
    pub owes_validation: bool,
    /// Validations since the best one.
    pub waiting: u64,
    /// Target tokens seen.
    pub target_tokens: u64,
    /// Seconds of training, those before a resume included.
    pub seconds: f64,
    /// Sums for the next log line.
    pub window: LogWindow,
    /// Running mean of the loss, to detect divergence; 0 before the first step.
    pub usual_loss: f64,
    /// Steps in `usual_loss`.
    pub usual_steps: u64,
    /// The last steps whose loss was far above `usual_loss`.
    #[serde(default)]
    pub high_steps: u64,
}

/// Result of one validation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ValidationRecord {
    /// Step of the checkpoint.
    pub step: u64,
    /// Score that chooses the best checkpoint; higher is better for every metric.
    pub merit: f64,
    /// Cross-entropy per target token.
    pub loss: f64,
}

impl ValidationRecord {
    /// Compares by score, then by loss: early scores may all be 0 while the loss decreases.
    fn rank(&self, other: &Self) -> Ordering {
        self.merit.total_cmp(&other.merit).then(other.loss.total_cmp(&self.loss))
    }

    /// True if it ranks above `other`.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        self.rank(other) == Ordering::Greater
    }
}

/// Sums since the last log line.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LogWindow {
    /// Loss × tokens.
    pub loss: f64,
    /// Gradient norms.
    pub gradient_norm: f64,
    /// Steps.
    pub steps: u64,
    /// Target tokens.
    pub tokens: u64,
    /// Seconds.
    pub seconds: f64,
}

impl LogWindow {
    pub(crate) fn add(&mut self, report: &StepReport, seconds: f64) {
        self.loss += report.loss * report.tokens as f64;
        self.gradient_norm += report.gradient_norm;
        self.steps += 1;
        self.tokens += report.tokens as u64;
        self.seconds += seconds;
    }
}

/// Weight of a new loss in the running mean.
const LOSS_WEIGHT: f64 = 0.02;
/// Steps before divergence can be detected by the running mean.
const MIN_STEPS: u64 = 100;
/// A loss more than this factor times, and this many nats above, the running mean is high.
const DIVERGENCE: (f64, f64) = (2.0, 2.0);
/// Steps in a row with a high loss that are a divergence. Fewer are a hard batch, such as one of empty lines.
const HIGH_STEPS: u64 = 3;

impl TrainerState {
    /// The state before the first step.
    pub fn new() -> Self {
        Self { rate_factor: 1.0, ..Self::default() }
    }

    /// The best validation: of equal scores the one with the smallest loss, and of those the earliest.
    pub fn best(&self) -> Option<&ValidationRecord> {
        self.validations.iter().reduce(|best, next| if next.is_better_than(best) { next } else { best })
    }

    /// Adds a validation; true if it is the best so far.
    pub fn record_validation(&mut self, record: ValidationRecord) -> bool {
        let is_best = self.best().is_none_or(|best| record.is_better_than(best));
        self.waiting = if is_best { 0 } else { self.waiting + 1 };
        self.validations.push(record);
        is_best
    }

    /// The steps of the `count` best validations, best first.
    pub fn best_steps(&self, count: usize) -> Vec<u64> {
        let mut sorted: Vec<&ValidationRecord> = self.validations.iter().collect();
        sorted.sort_by(|a, b| b.rank(a).then(a.step.cmp(&b.step)));
        sorted.iter().take(count).map(|record| record.step).collect()
    }

    /// The last `count` milestones, in order.
    pub fn last_milestones(&self, count: usize) -> &[u64] {
        &self.milestones[self.milestones.len().saturating_sub(count)..]
    }

    /// True if the loss has diverged with this step; a loss that is not high updates the running mean.
    pub(crate) fn diverges(&mut self, loss: f64, vocab_size: usize) -> bool {
        let (factor, nats) = DIVERGENCE;
        let usual = self.usual_loss;
        if self.usual_steps >= MIN_STEPS && loss > usual * factor && loss > usual + nats {
            self.high_steps += 1;
        } else {
            self.high_steps = 0;
            self.usual_loss = if self.usual_steps == 0 { loss } else { usual + LOSS_WEIGHT * (loss - usual) };
            self.usual_steps += 1;
        }
        self.high_steps >= HIGH_STEPS || loss > divergence_limit(vocab_size)
    }
}

/// A loss far above that of a uniform prediction, ln(vocab_size), has diverged at any step.
fn divergence_limit(vocab_size: usize) -> f64 {
    10.0 * (vocab_size as f64).ln() + 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_earliest_of_equals_and_patience_counts_from_it() {
        let mut state = TrainerState::new();
        let record = |step, merit| ValidationRecord { step, merit, loss: 0.0 };
        let news = [(10, 1.0), (20, 3.0), (30, 3.0), (40, 2.0)]
            .map(|(step, merit)| state.record_validation(record(step, merit)));
        assert_eq!(news, [true, true, false, false]);
        assert_eq!((state.best().unwrap().step, state.waiting), (20, 2));
        assert_eq!(state.best_steps(3), [20, 30, 40]);
        // The same score with a smaller loss is better.
        assert!(state.record_validation(ValidationRecord { step: 50, merit: 3.0, loss: -1.0 }));
        assert_eq!(state.best_steps(2), [50, 20]);
    }

    #[test]
    fn divergence_differs_from_noise() {
        let mut state = TrainerState::new();
        assert!((0..200).all(|step| !state.diverges(5.0 + f64::from(step % 2), 9000)));
        assert!(!state.diverges(7.4, 9000));
        // Two hard batches now and then are no divergence, and leave the running mean alone.
        let usual = state.usual_loss;
        assert!((0..30).all(|step| !state.diverges(if step % 3 < 2 { 11.5 } else { usual }, 9000)));
        assert!((state.usual_loss - usual).abs() < 1e-9);
        assert_eq!([11.5; 3].map(|loss| state.diverges(loss, 9000)), [false, false, true]);
        assert!(TrainerState::new().diverges(2000.0, 9000));
    }
}
