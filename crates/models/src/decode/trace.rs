//! What a beam search looked at: every step's candidates, where they came from, and what became of them.

/// The search for one sentence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BeamTrace {
    /// One entry a step, the first token first.
    pub steps: Vec<Vec<TracedCandidate>>,
}

/// A token that a live hypothesis could have taken; a step lists them best first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedCandidate {
    /// The live hypothesis it continues: the n of [`Fate::Kept`] one step before, 0 at the first step.
    pub parent: usize,
    /// The token.
    pub id: u32,
    /// The token's log-probability after all rules.
    pub log_probability: f32,
    /// The sum of the log-probabilities with this token.
    pub sum: f64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is live hypothesis n of the next step.
    Kept(usize),
    /// It is complete, and finished if its score was high enough.
    Finished,
    /// It was dropped.
    Pruned,
}

impl BeamTrace {
    /// The tokens of a step's candidate from the first on, by its place in the list.
    pub fn ids(&self, step: usize, place: usize) -> Vec<u32> {
        let mut candidate = self.steps[step][place];
        let mut ids = vec![candidate.id];
        for before in self.steps[..step].iter().rev() {
            let kept = |other: &&TracedCandidate| other.fate == Fate::Kept(candidate.parent);
            candidate = *before.iter().find(kept).expect("a parent was kept");
            ids.push(candidate.id);
        }
        ids.reverse();
        ids
    }
}
