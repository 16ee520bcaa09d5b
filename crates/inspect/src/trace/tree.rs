//! The tree of a beam search: every candidate with its score and its fate.
//!
//! Nodes are in order of their steps, best first within a step. A node without a parent continues the start token.

use polyhead_models::decode::trace::{BeamTrace, CandidateOutcome};

/// The candidates of a beam search.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamTree {
    /// Beam size.
    pub beam_size: usize,
    /// All candidates, each after its parent.
    pub nodes: Vec<BeamNode>,
}

/// A hypothesis with its newest token.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamNode {
    /// Index of the node that it continues.
    pub parent: Option<usize>,
    /// Decoding step, from 0.
    pub step: usize,
    /// Id of its newest token.
    pub id: u32,
    /// Vocabulary entry of that token.
    pub piece: String,
    /// Log-probability of that token, after all decoding rules.
    pub log_probability: f32,
    /// Sum of log-probabilities up to it.
    pub sum: f64,
    /// Its fate.
    pub fate: NodeFate,
    /// True if it is on the path of the translation.
    pub is_best: bool,
}

/// CandidateOutcome of a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFate {
    /// Continued at the next step.
    Kept,
    /// Complete.
    Finished,
    /// Dropped.
    Pruned,
}

impl BeamTree {
    /// The tree of a search whose best result was `best`.
    pub(super) fn new(
        trace: &BeamTrace,
        beam_size: usize,
        best: &[u32],
        piece: impl Fn(u32) -> String,
    ) -> Self {
        let mut nodes: Vec<BeamNode> = Vec::new();
        // Nodes continued from the previous step, by their index among the live hypotheses.
        let mut live: Vec<usize> = Vec::new();
        for (step, candidates) in trace.steps.iter().enumerate() {
            let mut next = Vec::new();
            for candidate in candidates {
                let parent = live.get(candidate.parent).copied();
                let is_parent_best = parent.map_or(step == 0, |parent| nodes[parent].is_best);
                let is_best = is_parent_best && best.get(step) == Some(&candidate.id);
                let fate = match candidate.outcome {
                    CandidateOutcome::Live(place) => {
                        next.resize(next.len().max(place + 1), nodes.len());
                        next[place] = nodes.len();
                        NodeFate::Kept
                    }
                    CandidateOutcome::Finished => NodeFate::Finished,
                    CandidateOutcome::Pruned => NodeFate::Pruned,
                };
                let &polyhead_models::decode::trace::TracedCandidate { id, log_probability, sum, .. } =
                    candidate;
                nodes.push(BeamNode {
                    parent,
                    step,
                    id,
                    piece: piece(id),
                    log_probability,
                    sum,
                    fate,
                    is_best,
                });
            }
            live = next;
        }
        Self { beam_size, nodes }
    }

    /// True if a hypothesis of these ids was finished, or kept until the end.
    pub fn has_path(&self, ids: &[u32]) -> bool {
        !ids.is_empty() && self.nodes.iter().filter(|node| node.is_best).count() >= ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_models::decode::trace::TracedCandidate;

    #[test]
    fn nodes_know_their_parents_and_the_path_of_the_best() {
        let candidate = |parent, id, fate| TracedCandidate {
            parent,
            id,
            log_probability: -1.0,
            sum: -2.0,
            outcome: fate,
        };
        let steps = vec![
            vec![
                candidate(0, 5, CandidateOutcome::Live(0)),
                candidate(0, 6, CandidateOutcome::Live(1)),
                candidate(0, 7, CandidateOutcome::Pruned),
            ],
            vec![
                candidate(1, 8, CandidateOutcome::Live(0)),
                candidate(0, 8, CandidateOutcome::Live(1)),
                candidate(1, 0, CandidateOutcome::Finished),
            ],
        ];
        let tree = BeamTree::new(&BeamTrace { steps }, 2, &[6, 0], |id| format!("p{id}"));
        let seen: Vec<_> = tree.nodes.iter().map(|node| (node.parent, node.id, node.is_best)).collect();
        let expected = [
            (None, 5, false),
            (None, 6, true),
            (None, 7, false),
            (Some(1), 8, false),
            (Some(0), 8, false),
            (Some(1), 0, true),
        ];
        assert_eq!(seen, expected);
        assert_eq!((tree.nodes[5].fate, tree.nodes[2].fate), (NodeFate::Finished, NodeFate::Pruned));
    }
}
