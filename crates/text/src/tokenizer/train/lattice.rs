//! The lattice of all segmentations of a word: the sums and the best path that unigram training needs.
//!
//! Nodes are the boundaries between characters, edges the pieces between two boundaries, each with its log
//! probability. With α the forward and β the backward sum over paths, the posterior of an edge e from i to j is
//! exp(α_i + score_e + β_j − α_n).

use ahash::AHashMap;

/// A piece and its log probability.
pub(crate) type Piece = (String, f64);

/// Trie of pieces by characters.
pub(crate) struct PieceTrie {
    children: AHashMap<(u32, char), u32>,
    /// Piece that ends at each node.
    ends: Vec<Option<u32>>,
    scores: Vec<f64>,
}

impl PieceTrie {
    pub(crate) fn new(pieces: &[Piece]) -> Self {
        let mut trie = Self {
            children: AHashMap::with_capacity(pieces.len() * 2),
            ends: vec![None],
            scores: pieces.iter().map(|&(_, score)| score).collect(),
        };
        for (id, (piece, _)) in pieces.iter().enumerate() {
            let mut node = 0;
            for c in piece.chars() {
                let next = trie.ends.len() as u32;
                node = *trie.children.entry((node, c)).or_insert(next);
                if node == next {
                    trie.ends.push(None);
                }
            }
            trie.ends[node as usize] = Some(id as u32);
        }
        trie
    }
}

/// A piece between two boundaries of a word.
#[derive(Clone, Copy)]
struct Edge {
    start: usize,
    end: usize,
    piece: u32,
}

/// The lattice of one word; reused for the next word to save allocations.
#[derive(Default)]
pub(crate) struct Lattice {
    chars: Vec<char>,
    /// Sorted by start.
    edges: Vec<Edge>,
    forward: Vec<f64>,
    backward: Vec<f64>,
    best: Vec<(f64, Option<Edge>)>,
}

impl Lattice {
    /// Builds the lattice of `word`.
    pub(crate) fn fill(&mut self, word: &str, trie: &PieceTrie) {
        self.chars.clear();
        self.chars.extend(word.chars());
        self.edges.clear();
        for start in 0..self.chars.len() {
            let mut node = 0;
            for end in start..self.chars.len() {
                let Some(&next) = trie.children.get(&(node, self.chars[end])) else { break };
                node = next;
                if let Some(piece) = trie.ends[node as usize] {
                    self.edges.push(Edge { start, end: end + 1, piece });
                }
            }
        }
    }

    /// Calls `take(piece, posterior)` for every edge; not at all if the word has no segmentation.
    pub(crate) fn posteriors(&mut self, trie: &PieceTrie, mut take: impl FnMut(u32, f64)) {
        let n = self.chars.len();
        self.forward.clear();
        self.forward.resize(n + 1, f64::NEG_INFINITY);
        self.backward.clone_from(&self.forward);
        self.forward[0] = 0.0;
        self.backward[n] = 0.0;
        for edge in &self.edges {
            let through = self.forward[edge.start] + trie.scores[edge.piece as usize];
            self.forward[edge.end] = log_add(self.forward[edge.end], through);
        }
        for edge in self.edges.iter().rev() {
            let through = self.backward[edge.end] + trie.scores[edge.piece as usize];
            self.backward[edge.start] = log_add(self.backward[edge.start], through);
        }
        let total = self.forward[n];
        if total == f64::NEG_INFINITY {
            return;
        }
        for edge in &self.edges {
            let score = trie.scores[edge.piece as usize];
            take(edge.piece, (self.forward[edge.start] + score + self.backward[edge.end] - total).exp());
        }
    }

    /// The pieces of the best path without `forbidden`, from the last to the first; empty if there is none.
    pub(crate) fn best_path(&mut self, trie: &PieceTrie, forbidden: Option<u32>) -> Vec<u32> {
        let n = self.chars.len();
        self.best.clear();
        self.best.resize(n + 1, (f64::NEG_INFINITY, None));
        self.best[0].0 = 0.0;
        for &edge in self.edges.iter().filter(|edge| Some(edge.piece) != forbidden) {
            let score = self.best[edge.start].0 + trie.scores[edge.piece as usize];
            if score > self.best[edge.end].0 {
                self.best[edge.end] = (score, Some(edge));
            }
        }
        let mut path = Vec::new();
        let mut at = n;
        while let Some(edge) = self.best[at].1 {
            path.push(edge.piece);
            at = edge.start;
        }
        if at == 0 { path } else { Vec::new() }
    }
}

/// ln(eᵃ + eᵇ).
fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        [("a", 0.2), ("b", 0.3), ("ab", 0.1), ("abb", 0.4)]
            .map(|(p, q): (&str, f64)| (p.to_owned(), q.ln()))
            .to_vec()
    }

    /// "ab" is a·b with 0.2 × 0.3 = 0.06 or ab with 0.1: posteriors 0.06/0.16 and 0.1/0.16.
    #[test]
    fn posteriors_by_hand() {
        let trie = PieceTrie::new(&pieces());
        let mut lattice = Lattice::default();
        lattice.fill("ab", &trie);
        let mut seen = [0.0; 4];
        lattice.posteriors(&trie, |piece, posterior| seen[piece as usize] += posterior);
        for (got, want) in seen.into_iter().zip([0.375, 0.375, 0.625, 0.0]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
    }

    #[test]
    fn the_best_path_may_be_forbidden() {
        let trie = PieceTrie::new(&pieces());
        let mut lattice = Lattice::default();
        lattice.fill("abb", &trie);
        assert_eq!(lattice.best_path(&trie, None), [3]);
        assert_eq!(lattice.best_path(&trie, Some(3)), [1, 2]);
        lattice.fill("ac", &trie);
        assert!(lattice.best_path(&trie, None).is_empty());
    }
}
