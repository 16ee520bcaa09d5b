//! A hypothesis that is still growing.

use super::Hypothesis;

/// Tokens so far and what they cost.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// The start token, then all tokens chosen: what rules see.
    pub(super) history: Vec<u32>,
    /// The sum of the model's log-probabilities.
    pub(super) log_probability: f64,
    /// The sum of the scores after all rules.
    pub(super) sum: f64,
    /// How much it looked at each source token; empty if nobody asks.
    pub(super) coverage: Vec<f64>,
}

impl Path {
    pub(super) fn new(start_id: u32) -> Self {
        Self { history: vec![start_id], log_probability: 0.0, sum: 0.0, coverage: Vec::new() }
    }

    /// Tokens chosen.
    pub(super) fn ids(&self) -> &[u32] {
        &self.history[1..]
    }

    /// One token more; `score` is its log-probability after all rules.
    pub(super) fn push(&mut self, id: u32, log_probability: f32, score: f32) {
        self.history.push(id);
        self.log_probability += f64::from(log_probability);
        self.sum += f64::from(score);
    }

    /// A finished hypothesis that is ranked by its log-probability.
    pub(super) fn finish(&self) -> Hypothesis {
        self.finish_with(self.log_probability)
    }

    /// A finished hypothesis that is ranked by `score`.
    pub(super) fn finish_with(&self, score: f64) -> Hypothesis {
        Hypothesis { ids: self.ids().to_vec(), log_probability: self.log_probability, score }
    }
}
