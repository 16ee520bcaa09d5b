//! Partial hypotheses.

use super::Hypothesis;

/// A hypothesis that has not ended yet: its tokens so far and their scores.
#[derive(Debug, Clone)]
pub(super) struct PartialHypothesis {
    /// The start token, then all generated tokens: the input of the rules.
    pub(super) history: Vec<u32>,
    /// The sum of the model's log-probabilities.
    pub(super) log_probability: f64,
    /// The sum of the scores after all rules.
    pub(super) sum: f64,
    /// The sum of attention weights of each source token; empty unless there is a coverage penalty.
    pub(super) coverage: Vec<f64>,
}

impl PartialHypothesis {
    pub(super) fn new(start_id: u32) -> Self {
        Self { history: vec![start_id], log_probability: 0.0, sum: 0.0, coverage: Vec::new() }
    }

    /// The generated tokens.
    pub(super) fn ids(&self) -> &[u32] {
        &self.history[1..]
    }

    /// Appends a token; `score` is its log-probability after all rules.
    pub(super) fn push(&mut self, id: u32, log_probability: f32, score: f32) {
        self.history.push(id);
        self.log_probability += f64::from(log_probability);
        self.sum += f64::from(score);
    }

    /// The finished hypothesis, ranked by the sum of its scores.
    pub(super) fn finish(&self) -> Hypothesis {
        self.finish_with(self.sum)
    }

    /// The finished hypothesis, ranked by `score`.
    pub(super) fn finish_with(&self, score: f64) -> Hypothesis {
        Hypothesis { ids: self.ids().to_vec(), log_probability: self.log_probability, score }
    }
}
