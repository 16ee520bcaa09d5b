//! The best finished hypotheses of one sentence.

use super::Hypothesis;

/// At most `size` distinct hypotheses, by descending score; ties go to the earlier one.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    best: Vec<Hypothesis>,
    size: usize,
}

impl Finished {
    pub(super) fn new(size: usize) -> Self {
        Self { best: Vec::with_capacity(size + 1), size }
    }

    /// Adds a hypothesis if it is among the best.
    pub(super) fn add(&mut self, hypothesis: Hypothesis) {
        if let Some(same) = self.best.iter().position(|other| other.ids == hypothesis.ids) {
            if self.best[same].score >= hypothesis.score {
                return;
            }
            self.best.remove(same);
        }
        let rank = self.best.partition_point(|other| other.score >= hypothesis.score);
        self.best.insert(rank, hypothesis);
        self.best.truncate(self.size);
    }

    /// The lowest score, once there are `size` hypotheses.
    pub(super) fn worst(&self) -> Option<f64> {
        if self.best.len() < self.size { None } else { self.best.last().map(|worst| worst.score) }
    }

    /// The `n` best.
    pub(super) fn into_best(mut self, n: usize) -> Vec<Hypothesis> {
        self.best.truncate(n);
        self.best
    }
}
