//! Early stopping of beam search, while hypotheses are still live.

use super::finished::Finished;
use super::length_penalty::LengthPenalty;

/// The stopping criterion, checked once as many hypotheses have finished as there are beams (`early_stopping`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EarlyStopping {
    /// Stops when the best live hypothesis, scored at its current length, is not better than the worst finished one. A
    /// heuristic: with a length penalty it might still improve (Hugging Face's `False`, its default).
    #[default]
    Heuristic,
    /// Stops immediately (`True`).
    First,
    /// Stops when no live hypothesis can become better at any length (`"never"`).
    Never,
}

/// The frontier of a search: its live hypotheses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frontier {
    /// The highest sum of log-probabilities of a live hypothesis.
    pub(super) best_sum: f64,
    /// Number of tokens of each live hypothesis.
    pub(super) length: usize,
    /// Maximum number of tokens.
    pub(super) max_length: usize,
}

impl EarlyStopping {
    /// True if the search should stop with the finished hypotheses.
    pub(super) fn should_stop(self, finished: &Finished, live: Frontier, penalty: LengthPenalty) -> bool {
        let Some(worst) = finished.worst() else { return false };
        let length = match self {
            Self::First => return true,
            Self::Heuristic => live.length,
            Self::Never => penalty.best_length(live.length, live.max_length),
        };
        penalty.score(live.best_sum, length) <= worst
    }
}
