//! The trace of a beam search: the candidates of every step, their parents and their outcomes.

/// The trace of the search for one sentence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BeamTrace {
    /// The candidates of each step.
    pub steps: Vec<Vec<TracedCandidate>>,
}

/// A candidate continuation of a live hypothesis; a step lists them best first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedCandidate {
    /// The live hypothesis it extends: the n of [`CandidateOutcome::Live`] of the step before, 0 at the first step.
    pub parent: usize,
    /// The token.
    pub id: u32,
    /// The token's log-probability after all rules.
    pub log_probability: f32,
    /// The sum of the log-probabilities including this token.
    pub sum: f64,
    /// The outcome.
    pub outcome: CandidateOutcome,
}

/// The outcome of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateOutcome {
    /// It became live hypothesis n of the next step.
    Live(usize),
    /// It is complete, and was kept as finished if its score was high enough.
    Finished,
    /// It was dropped.
    Pruned,
}

impl BeamTrace {
    /// All tokens of the hypothesis that ends with candidate `rank` of a step.
    pub fn ids(&self, step: usize, rank: usize) -> Vec<u32> {
        let mut candidate = self.steps[step][rank];
        let mut ids = vec![candidate.id];
        for before in self.steps[..step].iter().rev() {
            let is_parent =
                |other: &&TracedCandidate| other.outcome == CandidateOutcome::Live(candidate.parent);
            candidate = *before.iter().find(is_parent).expect("a parent was live");
            ids.push(candidate.id);
        }
        ids.reverse();
        ids
    }
}
