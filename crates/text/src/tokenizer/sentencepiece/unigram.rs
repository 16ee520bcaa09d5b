//! Unigram segmentation (Kudo 2018, «Subword Regularization»): `argmax_x Σ score(x_i)` over all ways to cut the text
//! into pieces, found by Viterbi over byte positions. A character without a piece of its own costs the lowest score of
//! all pieces less 10.
//!
//! To give the same answer as SentencePiece on ties, sums are taken the same way: a path's score is kept as f32, a
//! candidate is compared as the f64 sum of that and the piece's score, the shorter piece that begins earlier stays.

use super::proto::{Piece, PieceKind};
use super::trie::{ROOT, Trie};
use super::{Segment, char_len};

const UNKNOWN_PENALTY: f32 = 10.0;
const UNREACHED: u32 = u32::MAX;

/// A unigram model ready for use.
#[derive(Debug, Clone)]
pub(crate) struct Unigram {
    trie: Trie,
    scores: Vec<f64>,
    unknown_score: f32,
    unknown: u32,
}

/// The best path that ends at a position: its score, its last piece, and where that begins.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    start: u32,
    id: u32,
}

impl Unigram {
    /// `unknown` is the id for characters that no piece covers.
    pub(crate) fn new(pieces: &[Piece], unknown: u32) -> Self {
        let normal =
            || pieces.iter().filter(|piece| piece.kind == PieceKind::Normal).map(|piece| piece.score);
        let lowest = normal().fold(f32::MAX, f32::min);
        // The smallest positive number, not the lowest: the user's symbols so score −0.1 and always win.
        let highest = normal().fold(f32::MIN_POSITIVE, f32::max);
        let score = |piece: &Piece| match piece.kind {
            PieceKind::UserDefined => f64::from(piece.text.len() as f32 * highest) - 0.1,
            _ => f64::from(piece.score),
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

    /// The pieces of `text`, one after the other.
    pub(crate) fn segment(&self, text: &str) -> Vec<Segment> {
        let bytes = text.as_bytes();
        let mut best = vec![Best { score: 0.0, start: UNREACHED, id: self.unknown }; bytes.len() + 1];
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
                let candidate = self.scores[id as usize] + f64::from(score_here);
                let target = &mut best[end];
                if target.start == UNREACHED || candidate > f64::from(target.score) {
                    *target = Best { score: candidate as f32, start: start as u32, id };
                }
            }
            if !covered {
                let candidate = self.unknown_score + score_here;
                let target = &mut best[start + width];
                if target.start == UNREACHED || candidate > target.score {
                    *target = Best { score: candidate, start: start as u32, id: self.unknown };
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
