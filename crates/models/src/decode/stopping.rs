//! When a beam search may stop although hypotheses are alive.

use super::finished::Finished;
use super::length_penalty::LengthPenalty;

/// The rule, asked as soon as as many hypotheses have finished as there are beams (`early_stopping`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EarlyStopping {
    /// Stops when the best live hypothesis, scored at its present length, is not better than the worst finished one. A
    /// heuristic: with a length penalty it might still have become better (Hugging Face's `False`, its default).
    #[default]
    Heuristic,
    /// Stops at once (`True`).
    First,
    /// Stops when no live hypothesis can become better at any length (`"never"`).
    Never,
}

/// Where a search stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// The highest sum of a live hypothesis.
    pub(super) best_sum: f64,
    /// Tokens of each live hypothesis.
    pub(super) length: usize,
    /// Most tokens.
    pub(super) max_length: usize,
}

impl EarlyStopping {
    /// True if the finished hypotheses are final.
    pub(super) fn holds(self, finished: &Finished, live: Standing, penalty: LengthPenalty) -> bool {
        let Some(worst) = finished.worst() else { return false };
        let length = match self {
            Self::First => return true,
            Self::Heuristic => live.length,
            Self::Never => penalty.best_length(live.length, live.max_length),
        };
        penalty.score(live.best_sum, length) <= worst
    }
}
