//! The tree of a beam search: every hypothesis that was looked at, with its score, and what became of it.
//!
//! Nodes stand in the order of their steps, within a step best first. A node without a parent goes on from the start.

use polyhead_models::decode::trace::{BeamTrace, Fate};

/// What a beam search looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// Hypotheses that went on at each step.
    pub beam_size: usize,
    /// All that were looked at, each after its parent.
    pub nodes: Vec<Node>,
}

/// A hypothesis with its newest token.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The node that it continues.
    pub parent: Option<usize>,
    /// The step that it was looked at in, from 0.
    pub step: usize,
    /// Its newest token.
    pub id: u32,
    /// How the vocabulary spells that.
    pub piece: String,
    /// That token's log-probability, after all rules.
    pub log_probability: f32,
    /// The sum of log-probabilities up to it.
    pub sum: f64,
    /// What became of it.
    pub fate: NodeFate,
    /// Whether the translation goes through it.
    pub is_best: bool,
}

/// What became of a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFate {
    /// It went on.
    Kept,
    /// It was complete.
    Finished,
    /// It was dropped.
    Pruned,
}

impl Tree {
    /// The tree of a search whose best result was `best`.
    pub(super) fn new(
        trace: &BeamTrace,
        beam_size: usize,
        best: &[u32],
        piece: impl Fn(u32) -> String,
    ) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        // The nodes that went on from the step before, by their places among the live, and whether each is on the way.
        let mut live: Vec<usize> = Vec::new();
        for (step, candidates) in trace.steps.iter().enumerate() {
            let mut next = Vec::new();
            for candidate in candidates {
                let parent = live.get(candidate.parent).copied();
                let is_on_the_way = parent.map_or(step == 0, |parent| nodes[parent].is_best);
                let is_best = is_on_the_way && best.get(step) == Some(&candidate.id);
                let fate = match candidate.fate {
                    Fate::Kept(place) => {
                        next.resize(next.len().max(place + 1), nodes.len());
                        next[place] = nodes.len();
                        NodeFate::Kept
                    }
                    Fate::Finished => NodeFate::Finished,
                    Fate::Pruned => NodeFate::Pruned,
                };
                let &polyhead_models::decode::trace::TracedCandidate { id, log_probability, sum, .. } =
                    candidate;
                nodes.push(Node { parent, step, id, piece: piece(id), log_probability, sum, fate, is_best });
            }
            live = next;
        }
        Self { beam_size, nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_models::decode::trace::TracedCandidate;

    #[test]
    fn nodes_know_their_parents_and_the_way_of_the_best() {
        let candidate =
            |parent, id, fate| TracedCandidate { parent, id, log_probability: -1.0, sum: -2.0, fate };
        let steps = vec![
            vec![
                candidate(0, 5, Fate::Kept(0)),
                candidate(0, 6, Fate::Kept(1)),
                candidate(0, 7, Fate::Pruned),
            ],
            vec![
                candidate(1, 8, Fate::Kept(0)),
                candidate(0, 8, Fate::Kept(1)),
                candidate(1, 0, Fate::Finished),
            ],
        ];
        let tree = Tree::new(&BeamTrace { steps }, 2, &[6, 0], |id| format!("p{id}"));
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
