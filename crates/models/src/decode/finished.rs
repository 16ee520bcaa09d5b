//! The best finished hypotheses of one sentence.

use super::Hypothesis;

/// At most `size` distinct hypotheses, the highest score first, of equals the earlier.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    best: Vec<Hypothesis>,
    size: usize,
}

impl Finished {
    pub(super) fn new(size: usize) -> Self {
        Self { best: Vec::with_capacity(size + 1), size }
    }

    /// Takes a hypothesis if it is among the best.
    pub(super) fn add(&mut self, hypothesis: Hypothesis) {
        if let Some(same) = self.best.iter().position(|other| other.ids == hypothesis.ids) {
            if self.best[same].score >= hypothesis.score {
                return;
            }
            self.best.remove(same);
        }
        let place = self.best.partition_point(|other| other.score >= hypothesis.score);
        self.best.insert(place, hypothesis);
        self.best.truncate(self.size);
    }

    /// The lowest score, once there are as many hypotheses as may be kept.
    pub(super) fn worst(&self) -> Option<f64> {
        if self.best.len() < self.size { None } else { self.best.last().map(|worst| worst.score) }
    }

    /// The `n` best.
    pub(super) fn into_best(mut self, n: usize) -> Vec<Hypothesis> {
        self.best.truncate(n);
        self.best
    }
}
