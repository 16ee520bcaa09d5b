//! Where a run stands: everything besides weights that decides what comes next.

use std::cmp::Ordering;

use polyhead_text::batch::Position;
use serde::{Deserialize, Serialize};

use crate::learner::StepReport;

/// The state of a run after a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps made.
    pub step: u64,
    /// The batch that comes next.
    pub position: Position,
    /// What the learning rate is multiplied by: halved each time the run went back after a divergence.
    pub rate_factor: f64,
    /// How often it went back.
    pub setbacks: u32,
    /// All validations so far, in order.
    pub validations: Vec<Judged>,
    /// Steps at which a validation was due, whether or not there was text for one: what averages are made of. Checkpoints
    /// that an interrupt or the clock asked for are not among them, so the finished model does not hang on either.
    pub milestones: Vec<u64>,
    /// Whether a validation was due and left, for the run was asked to stop: it comes first when the run goes on.
    #[serde(default)]
    pub owes_validation: bool,
    /// Validations since the best.
    pub waiting: u64,
    /// Target tokens seen.
    pub target_tokens: u64,
    /// Seconds of training, before a resume too.
    pub seconds: f64,
    /// What the next line of the log is made of.
    pub window: Window,
    /// The loss of late, by which an explosion is known; 0 before the first step.
    pub usual_loss: f64,
    /// Steps that `usual_loss` has seen.
    pub usual_steps: u64,
}

/// One validation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// After so many steps.
    pub step: u64,
    /// The score that chooses; higher is better, whatever the metric.
    pub merit: f64,
    /// Cross-entropy of a target token.
    pub loss: f64,
}

impl Judged {
    /// By score, then by loss: early scores may all be 0 while the loss falls.
    fn rank(&self, other: &Self) -> Ordering {
        self.merit.total_cmp(&other.merit).then(other.loss.total_cmp(&self.loss))
    }

    fn is_better_than(&self, other: &Self) -> bool {
        self.rank(other) == Ordering::Greater
    }
}

/// Sums since the last line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
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

impl Window {
    pub(crate) fn add(&mut self, report: &StepReport, seconds: f64) {
        self.loss += report.loss * report.tokens as f64;
        self.gradient_norm += report.gradient_norm;
        self.steps += 1;
        self.tokens += report.tokens as u64;
        self.seconds += seconds;
    }
}

/// How fast the usual loss follows.
const FOLLOW: f64 = 0.02;
/// Steps before an explosion can be told.
const SETTLED: u64 = 100;
/// A loss so many times the usual one, and so many nats above it, is an explosion.
const EXPLOSION: (f64, f64) = (2.0, 2.0);

impl State {
    /// The beginning of a run.
    pub fn new() -> Self {
        Self { rate_factor: 1.0, ..Self::default() }
    }

    /// The best validation: of equal scores the one with the least loss, and of those the earliest.
    pub fn best(&self) -> Option<&Judged> {
        self.validations.iter().reduce(|best, next| if next.is_better_than(best) { next } else { best })
    }

    /// Adds a validation; true if it is the best so far.
    pub fn judge(&mut self, judged: Judged) -> bool {
        let is_best = self.best().is_none_or(|best| judged.is_better_than(best));
        self.waiting = if is_best { 0 } else { self.waiting + 1 };
        self.validations.push(judged);
        is_best
    }

    /// The steps of the `count` best validations, the best first.
    pub fn best_steps(&self, count: usize) -> Vec<u64> {
        let mut sorted: Vec<&Judged> = self.validations.iter().collect();
        sorted.sort_by(|a, b| b.rank(a).then(a.step.cmp(&b.step)));
        sorted.iter().take(count).map(|judged| judged.step).collect()
    }

    /// The last `count` milestones, in order.
    pub fn last_milestones(&self, count: usize) -> &[u64] {
        &self.milestones[self.milestones.len().saturating_sub(count)..]
    }

    /// Whether this loss is an explosion; if not, the usual loss follows it.
    pub(crate) fn explodes(&mut self, loss: f64, vocab_size: usize) -> bool {
        let (times, nats) = EXPLOSION;
        let usual = self.usual_loss;
        let is_settled = self.usual_steps >= SETTLED;
        if (is_settled && loss > usual * times && loss > usual + nats) || loss > hopeless(vocab_size) {
            return true;
        }
        self.usual_loss = if self.usual_steps == 0 { loss } else { usual + FOLLOW * (loss - usual) };
        self.usual_steps += 1;
        false
    }
}

/// A loss far beyond that of guessing, which is ln of the vocabulary, is an explosion at any step.
fn hopeless(vocab_size: usize) -> f64 {
    10.0 * (vocab_size as f64).ln() + 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_earliest_of_equals_and_patience_counts_from_it() {
        let mut state = State::new();
        let judged = |step, merit| Judged { step, merit, loss: 0.0 };
        let news = [(10, 1.0), (20, 3.0), (30, 3.0), (40, 2.0)]
            .map(|(step, merit)| state.judge(judged(step, merit)));
        assert_eq!(news, [true, true, false, false]);
        assert_eq!((state.best().unwrap().step, state.waiting), (20, 2));
        assert_eq!(state.best_steps(3), [20, 30, 40]);
        // The same score with a smaller loss is better.
        assert!(state.judge(Judged { step: 50, merit: 3.0, loss: -1.0 }));
        assert_eq!(state.best_steps(2), [50, 20]);
    }

    #[test]
    fn an_explosion_is_told_from_noise() {
        let mut state = State::new();
        assert!((0..200).all(|step| !state.explodes(5.0 + f64::from(step % 2), 9000)));
        assert!(!state.explodes(7.4, 9000));
        assert!(state.explodes(11.5, 9000));
        assert!(State::new().explodes(2000.0, 9000));
    }
}
