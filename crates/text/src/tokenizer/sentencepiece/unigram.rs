//! Unigram segmentation (Kudo 2018, *Subword regularization*): `argmax_x Σ score(x_i)` over all segmentations of the
//! text into pieces, found by Viterbi over byte positions. A character without a piece scores 10 less than the lowest
//! score of all pieces.
//!
//! To break ties as SentencePiece 0.2.2 does, sums are computed as there: in f32, from left to right, and of two paths
//! with the same sum the one whose last piece begins earlier wins. A user-defined symbol of `n` bytes scores (n − 1) /
//! 10, more than the log probabilities of any other segmentation of it. (Up to version 0.2.1 sums were compared in f64
//! before rounding and such symbols scored −0.1, so that about one text in ten thousand, mostly one with an exact tie,
//! is segmented differently there.)

use super::proto::{Piece, PieceKind};
use super::trie::{ROOT, Trie};
use super::{Segment, char_len};

const UNKNOWN_PENALTY: f32 = 10.0;
/// Score of a user-defined symbol per byte after the first.
const SYMBOL_BONUS: f64 = 0.1;
const UNREACHED: u32 = u32::MAX;

/// A unigram model.
#[derive(Debug, Clone)]
pub(crate) struct Unigram {
    trie: Trie,
    scores: Vec<f32>,
    unknown_score: f32,
    unknown: u32,
}

/// The best path to a position: its score, and the start and id of its last piece.
#[derive(Clone, Copy)]
struct BestPath {
    score: f32,
    start: u32,
    id: u32,
}

impl Unigram {
    /// `unknown` is the id of characters without a piece.
    pub(crate) fn new(pieces: &[Piece], unknown: u32) -> Self {
        let normal = pieces.iter().filter(|piece| piece.kind == PieceKind::Normal);
        let lowest = normal.map(|piece| piece.score).fold(f32::MAX, f32::min);
        let score = |piece: &Piece| match piece.kind {
            PieceKind::UserDefined => ((piece.text.len() - 1) as f64 * SYMBOL_BONUS) as f32,
            _ => piece.score,
        };
        let usable = |piece: &Piece| matches!(piece.kind, PieceKind::Normal | PieceKind::UserDefined);
        Self {
            trie: Trie::new(
                pieces
                    .iter()
                    .zip(0..)
                    .filter(|(piece, _)| usable(piece))
                    .map(|(piece, id)| (piece.text.as_str(), id)),
            ),
            scores: pieces.iter().map(score).collect(),
            unknown_score: lowest - UNKNOWN_PENALTY,
            unknown,
        }
    }

    /// The pieces of `text` in order.
    pub(crate) fn segment(&self, text: &str) -> Vec<Segment> {
        let bytes = text.as_bytes();
        let mut best = vec![BestPath { score: 0.0, start: UNREACHED, id: self.unknown }; bytes.len() + 1];
        let mut start = 0;
        while start < bytes.len() {
            let score_here = best[start].score;
            let width = char_len(bytes[start]);
            let mut covered = false;
            let mut node = ROOT;
            for (end, &byte) in (start + 1..).zip(&bytes[start..]) {
                let Some(next) = self.trie.step(node, byte) else { break };
                node = next;
                let Some(id) = self.trie.value(node) else { continue };
                covered |= end - start == width;
                let candidate = self.scores[id as usize] + score_here;
                let target = &mut best[end];
                if target.start == UNREACHED || candidate > target.score {
                    *target = BestPath { score: candidate, start: start as u32, id };
                }
            }
            if !covered {
                let candidate = self.unknown_score + score_here;
                let target = &mut best[start + width];
                if target.start == UNREACHED || candidate > target.score {
                    *target = BestPath { score: candidate, start: start as u32, id: self.unknown };
                }
            }
            start += width;
        }
        let mut segments = Vec::with_capacity(bytes.len() / 3 + 1);
        let mut end = bytes.len();
        while end > 0 {
            segments.push(Segment { end, id: best[end].id });
            end = best[end].start as usize;
        }
        segments.reverse();
        segments
    }
}
