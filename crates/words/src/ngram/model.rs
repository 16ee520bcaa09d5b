//! An n-gram model and its probabilities.
//!
//! p(w | c) is that of the longest n-gram that ends with c w; for each word of context beyond it, a back-off is added.

use std::path::Path;
use std::sync::Arc;

use super::count::TextUnit;
use super::table::{Plain, Table};
use super::vocabulary::Words;
use super::{BEGIN, END, MAX_ORDER, SPECIAL, UNKNOWN};
use crate::Result;

/// An n-gram while a model is built.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Entry {
    /// Its first word.
    pub(crate) word: u32,
    /// Log₁₀ of the probability of its last word after the others.
    pub(crate) prob: f32,
    /// Log₁₀ of the back-off weight of contexts that end with it; 0 for the highest order.
    pub(crate) backoff: f32,
    /// Index of its first child in the next level: the n-gram with one more word before it. The entry after it has the end.
    pub(crate) begin: u32,
}

/// An n-gram below the highest order, without its word.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub(crate) struct Node {
    /// Log₁₀ of its probability.
    pub(crate) prob: f32,
    /// Log₁₀ of its back-off weight.
    pub(crate) backoff: f32,
    /// Index of its first child in the next level; the node after it has the end.
    pub(crate) begin: u32,
}

// SAFETY: three numbers of four bytes.
unsafe impl Plain for Node {}

/// The n-grams of one order below the highest, in the order of their parents. Words are apart, for a faster search.
#[derive(Debug)]
pub(crate) struct Level {
    /// The first word of each n-gram.
    pub(crate) words: Table<u32>,
    /// One more than words: the last has the end of the children of the one before.
    pub(crate) nodes: Table<Node>,
}

/// The n-grams of the highest order.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// The first word of each n-gram.
    pub(crate) words: Table<u32>,
    /// Log₁₀ of their probabilities.
    pub(crate) probs: Table<f32>,
}

/// An n-gram language model. Clones share its memory.
#[derive(Debug, Clone)]
pub struct NgramModel {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) words: Words,
    /// The orders below the highest, and always the first, where a node is at the index of its word.
    pub(crate) levels: Vec<Level>,
    /// The highest order, unless it is 1.
    pub(crate) leaves: Option<Leaves>,
    pub(crate) unit: TextUnit,
}

/// The words before the next one, and what is known of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// The newest first.
    words: [u32; MAX_ORDER],
    len: usize,
    /// Log₁₀ back-off weights of the contexts of 1, 2, … words.
    backoffs: [f32; MAX_ORDER],
}

/// The probability of a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WordScore {
    /// Log₁₀ of its probability.
    pub log10: f32,
    /// Length of the longest n-gram found, the word included.
    pub matched: usize,
}

impl NgramModel {
    /// A model of the entries of each order, each with an additional entry that has the end of the last one's children.
    pub(crate) fn new(words: Words, mut orders: Vec<Vec<Entry>>, unit: TextUnit) -> Self {
        let first_words = |entries: &[Entry]| {
            let own = entries.len().saturating_sub(1);
            Table::Owned(entries[..own].iter().map(|entry| entry.word).collect())
        };
        let highest = if orders.len() > 1 { orders.pop() } else { None };
        let leaves = highest.map(|entries| Leaves {
            words: first_words(&entries),
            probs: Table::Owned(
                entries[..entries.len().saturating_sub(1)].iter().map(|entry| entry.prob).collect(),
            ),
        });
        let node = |&Entry { prob, backoff, begin, .. }: &Entry| Node { prob, backoff, begin };
        let levels = orders.iter().map(|entries| Level {
            words: first_words(entries),
            nodes: Table::Owned(entries.iter().map(node).collect()),
        });
        let levels = levels.collect();
        Self { inner: Arc::new(Inner { words, levels, leaves, unit }) }
    }

    /// Reads a model: ARPA, plain or gzip, or our binary format, which is mapped into memory.
    ///
    /// # Errors
    /// If the file is neither, or damaged.
    pub fn load(path: &Path) -> Result<Self> {
        if super::binary::is_binary(path)? { super::binary::load(path) } else { super::arpa::read(path) }
    }

    /// Writes a model: ARPA if the name ends with `.arpa` or `.arpa.gz`, otherwise our binary format.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        if super::arpa::is_arpa(path) {
            super::arpa::write(self, path)
        } else {
            super::binary::save(self, path)
        }
    }

    /// Length of the longest n-grams.
    pub fn order(&self) -> usize {
        self.inner.levels.len() + usize::from(self.inner.leaves.is_some())
    }

    /// Unit that is predicted.
    pub fn unit(&self) -> TextUnit {
        self.inner.unit
    }

    /// Numbers of n-grams, from order 1.
    pub fn counts(&self) -> Vec<usize> {
        let levels = self.inner.levels.iter().map(|level| level.words.len());
        levels.chain(self.inner.leaves.as_ref().map(|leaves| leaves.words.len())).collect()
    }

    /// Number of words, with `<unk>`, `<s>` and `</s>`.
    pub fn vocab_size(&self) -> usize {
        self.inner.words.len()
    }

    /// The id of a word; [`UNKNOWN`] for an unknown or special one.
    pub fn id(&self, word: &str) -> u32 {
        self.id_of(word.as_bytes())
    }

    pub(crate) fn id_of(&self, word: &[u8]) -> u32 {
        self.inner.words.find(word).filter(|id| *id as usize >= SPECIAL.len()).unwrap_or(UNKNOWN)
    }

    /// The word of an id.
    pub fn word(&self, id: u32) -> &str {
        self.inner.words.word(id)
    }

    /// The state at the beginning of a sentence.
    pub fn begin(&self) -> State {
        let mut state = State { words: [0; MAX_ORDER], len: 0, backoffs: [0.0; MAX_ORDER] };
        if self.order() > 1 {
            state.words[0] = BEGIN;
            state.backoffs[0] =
                self.inner.levels[0].nodes.get(BEGIN as usize).map_or(0.0, |node| node.backoff);
            state.len = 1;
        }
        state
    }

    /// The probability of a word, which then becomes part of the state.
    pub fn advance(&self, state: &mut State, word: u32) -> WordScore {
        let Inner { levels, leaves, .. } = &*self.inner;
        let most = self.order() - 1;
        let mut new =
            State { words: [0; MAX_ORDER], len: (state.len + 1).min(most), backoffs: [0.0; MAX_ORDER] };
        let mut node = levels[0].nodes.get(word as usize).copied().unwrap_or_default();
        let mut end = levels[0].nodes.get(word as usize + 1).map_or(0, |next| next.begin);
        new.backoffs[0] = node.backoff;
        let (mut matched, mut prob) = (0, node.prob);
        while matched < state.len {
            let before = state.words[matched];
            let Some(level) = levels.get(matched + 1) else {
                if let Some(found) = leaves.as_ref().and_then(|leaves| leaves.prob(node.begin, end, before)) {
                    (prob, matched) = (found, matched + 1);
                }
                break;
            };
            let Some(at) = find(&level.words, node.begin, end, before) else { break };
            node = level.nodes.get(at).copied().unwrap_or_default();
            end = level.nodes.get(at + 1).map_or(0, |next| next.begin);
            (prob, matched) = (node.prob, matched + 1);
            new.backoffs[matched] = node.backoff;
        }
        let backoff: f32 = state.backoffs[matched..state.len].iter().sum();
        new.words[0] = word;
        new.words[1..new.len.max(1)].copy_from_slice(&state.words[..new.len.max(1) - 1]);
        *state = new;
        WordScore { log10: prob + backoff, matched: matched + 1 }
    }

    /// The probability of a word after a state.
    pub fn next(&self, state: &State, word: u32) -> f32 {
        self.advance(&mut state.clone(), word).log10
    }

    /// The end of a sentence after a state.
    pub fn end(&self, state: &State) -> f32 {
        self.next(state, END)
    }
}

impl Leaves {
    /// The probability of the n-gram with this first word among those from `begin` to `end`.
    #[inline]
    fn prob(&self, begin: u32, end: u32, word: u32) -> Option<f32> {
        self.probs.get(find(&self.words, begin, end, word)?).copied()
    }
}

/// The index of a word among those from `begin` to `end`, which ascend.
#[inline]
fn find(words: &[u32], begin: u32, end: u32, word: u32) -> Option<usize> {
    let words = words.get(begin as usize..end as usize)?;
    let at = words.partition_point(|own| *own < word);
    words.get(at).filter(|own| **own == word).map(|_| begin as usize + at)
}

impl NgramModel {
    /// The probability of the first word of `reversed` after the others, by backing off once: as if the n-gram itself were
    /// unknown.
    pub(super) fn backed_off(&self, reversed: &[u32]) -> f32 {
        let node = |words: &[u32]| -> Option<Node> {
            let levels = &self.inner.levels;
            let (first, rest) = words.split_first()?;
            let mut at = *first as usize;
            for (depth, word) in rest.iter().enumerate() {
                let nodes = &levels.get(depth)?.nodes;
                at = find(
                    &levels.get(depth + 1)?.words,
                    nodes.get(at)?.begin,
                    nodes.get(at + 1)?.begin,
                    *word,
                )?;
            }
            levels.get(words.len() - 1)?.nodes.get(at).copied()
        };
        let context = node(&reversed[1..]).map_or(0.0, |node| node.backoff);
        context + node(&reversed[..reversed.len() - 1]).map_or(0.0, |node| node.prob)
    }
}
