//! Byte-pair encoding (Sennrich et al. 2016) with scores: of all adjacent pairs whose concatenation is a piece, the
//! pair with the highest score merges first (ties: the leftmost), until none is left. User-defined symbols never merge.
//!
//! An unused piece may be an intermediate result of a longer one; if it remains at the end, it is split into the pair
//! from which it was last built.

use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use super::normalizer::{Normalizer, SPACE};
use super::proto::{Piece, PieceKind};
use super::trie::{ROOT, Trie};
use super::{Segment, char_len};

const NO_NODE: u32 = u32::MAX;
const NO_SYMBOL: u32 = u32::MAX;
/// SentencePiece stops splitting unused pieces at this depth.
const MAX_DEPTH: u32 = 100;

/// A BPE model ready for use.
#[derive(Debug, Clone)]
pub(crate) struct Bpe {
    trie: Trie,
    /// Scores as integers of the same order.
    ranks: Vec<u32>,
    unused: Vec<bool>,
    /// True if no piece has an inner `▁`, so that every word can be merged on its own.
    words_apart: bool,
    unknown: u32,
}

/// A symbol being merged: bytes `start..end`, its neighbours, and its node in the trie.
struct Symbol {
    start: u32,
    end: u32,
    previous: u32,
    next: u32,
    node: u32,
    frozen: bool,
}

/// Two adjacent symbols that can merge. Ordered by the fields: highest rank, then leftmost.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MergeCandidate {
    rank: u32,
    left: std::cmp::Reverse<u32>,
    right: u32,
    bytes: u32,
    node: u32,
}

/// State of merging one text.
struct MergeState<'a> {
    model: &'a Bpe,
    bytes: &'a [u8],
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<MergeCandidate>,
    /// Unused piece → length of its left part in bytes.
    splits: HashMap<u32, u32>,
}

impl Bpe {
    /// `unknown` is the id of characters without a piece.
    pub(crate) fn new(pieces: &[Piece], unknown: u32) -> Self {
        let inside = |piece: &Piece| piece.text.chars().skip(1).any(|character| character == SPACE);
        let unused = |piece: &Piece| piece.kind == PieceKind::Unused;
        Self {
            trie: super::text_trie(pieces),
            ranks: pieces.iter().map(|piece| ordered(piece.score)).collect(),
            unused: pieces.iter().map(unused).collect(),
            // An unused piece is split as last built anywhere in the text.
            words_apart: !pieces.iter().any(|piece| inside(piece) || unused(piece)),
            unknown,
        }
    }

    /// The pieces of `text` in order; `user_symbols` holds the user-defined symbols.
    pub(crate) fn segment(&self, text: &str, user_symbols: &Normalizer) -> Vec<Segment> {
        let mut merge = MergeState {
            model: self,
            bytes: text.as_bytes(),
            symbols: Vec::with_capacity(if self.words_apart { 32 } else { text.len() }),
            agenda: BinaryHeap::with_capacity(32),
            splits: HashMap::new(),
        };
        let mut segments = Vec::with_capacity(text.len() / 3 + 1);
        let mut start = 0;
        while start < text.len() {
            let end = if self.words_apart { word_end(text, start) } else { text.len() };
            merge.read(text, start..end, user_symbols);
            merge.run();
            merge.output(&mut segments);
            start = end;
        }
        segments
    }
}

/// End of the word that begins at `start`: before the next `▁`.
fn word_end(text: &str, start: usize) -> usize {
    let inside = start + char_len(text.as_bytes()[start]);
    text[inside..].find(SPACE).map_or(text.len(), |at| inside + at)
}

impl MergeState<'_> {
    /// Resets the state to the characters of `text[range]`.
    fn read(&mut self, text: &str, range: Range<usize>, user_symbols: &Normalizer) {
        self.symbols.clear();
        let mut start = range.start;
        while start < range.end {
            let symbol = user_symbols.symbol(&text[start..range.end]);
            let end = start + symbol.unwrap_or_else(|| char_len(self.bytes[start]));
            let index = self.symbols.len() as u32;
            self.symbols.push(Symbol {
                start: start as u32,
                end: end as u32,
                previous: index.wrapping_sub(1),
                next: if end < range.end { index + 1 } else { NO_SYMBOL },
                node: self.model.trie.walk(ROOT, &self.bytes[start..end]).unwrap_or(NO_NODE),
                frozen: symbol.is_some(),
            });
            start = end;
        }
        for right in 1..self.symbols.len() as u32 {
            if let Some(pair) = self.pair(right - 1, right) {
                self.agenda.push(pair);
            }
        }
    }

    fn run(&mut self) {
        while let Some(MergeCandidate { left: std::cmp::Reverse(left), right, bytes, node, .. }) =
            self.agenda.pop()
        {
            let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
            // A symbol merged into its left neighbour is empty; a pair that has grown since is out of date.
            if a.start == a.end || b.start == b.end || b.end - a.start != bytes || a.next != right {
                continue;
            }
            let (end, next, previous) = (b.end, b.next, a.previous);
            let merged = &mut self.symbols[left as usize];
            merged.end = end;
            merged.next = next;
            merged.node = node;
            let absorbed = &mut self.symbols[right as usize];
            absorbed.end = absorbed.start;
            if next != NO_SYMBOL {
                self.symbols[next as usize].previous = left;
            }
            for pair in [self.pair(previous, left), self.pair(left, next)].into_iter().flatten() {
                self.agenda.push(pair);
            }
        }
    }

    /// The candidate of two adjacent symbols, if their concatenation is a piece.
    fn pair(&mut self, left: u32, right: u32) -> Option<MergeCandidate> {
        if left == NO_SYMBOL || right == NO_SYMBOL {
            return None;
        }
        let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if a.frozen || b.frozen || a.node == NO_NODE {
            return None;
        }
        let node = self.model.trie.walk(a.node, &self.bytes[b.start as usize..b.end as usize])?;
        let id = self.model.trie.value(node)?;
        if self.model.unused[id as usize] {
            self.splits.insert(id, a.end - a.start);
        }
        let rank = self.model.ranks[id as usize];
        Some(MergeCandidate { rank, left: std::cmp::Reverse(left), right, bytes: b.end - a.start, node })
    }

    fn output(&self, segments: &mut Vec<Segment>) {
        let mut at = 0;
        while let Some(symbol) = self.symbols.get(at as usize) {
            self.output_symbol(symbol, segments);
            at = symbol.next;
        }
    }

    fn output_symbol(&self, symbol: &Symbol, segments: &mut Vec<Segment>) {
        let id = if symbol.node == NO_NODE { None } else { self.model.trie.value(symbol.node) };
        let id = id.unwrap_or(self.model.unknown);
        if !self.model.unused[id as usize] {
            segments.push(Segment { end: symbol.end as usize, id });
            return;
        }
        let mut parts = vec![(symbol.start, symbol.end, symbol.node, 0)];
        while let Some((start, end, node, depth)) = parts.pop() {
            let id = if node == NO_NODE { None } else { self.model.trie.value(node) };
            let left = id
                .filter(|&id| depth <= MAX_DEPTH && self.model.unused[id as usize])
                .and_then(|id| self.splits.get(&id));
            match left {
                Some(left) => {
                    for (start, end) in [(start + left, end), (start, start + left)] {
                        let part = &self.bytes[start as usize..end as usize];
                        parts.push((
                            start,
                            end,
                            self.model.trie.walk(ROOT, part).unwrap_or(NO_NODE),
                            depth + 1,
                        ));
                    }
                }
                None => segments.push(Segment { end: end as usize, id: id.unwrap_or(self.model.unknown) }),
            }
        }
    }
}

/// An integer with the same order as the score; −0 equals 0.
fn ordered(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

#[cfg(test)]
mod tests {
    use super::ordered;

    #[test]
    fn integers_keep_the_order_of_scores() {
        let scores = [f32::NEG_INFINITY, -3.5, -0.25, 0.0, 1e-9, 7.0, f32::INFINITY];
        assert!(scores.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
        assert_eq!(ordered(-0.0), ordered(0.0));
    }
}
