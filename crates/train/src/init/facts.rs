//! What a corpus is like, as far as it decides anything.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use polyhead_text::corpus::Corpus;

use crate::Result;

/// Pairs whose words are told apart; more would change no choice.
const LOOKED_AT: u64 = 200_000;

/// Measures of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Pairs with text on both sides.
    pub pairs: u64,
    /// Source and target.
    pub sides: [SideFacts; 2],
}

/// Measures of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideFacts {
    /// Words between spaces.
    pub words: u64,
    /// Characters.
    pub chars: u64,
    /// Characters of the longest line.
    pub longest: u64,
    /// Different words between spaces among the first 200,000 pairs.
    pub kinds: u64,
    /// Those of them that occur once.
    pub once: u64,
    /// Different runs of letters and digits, two or more, that occur twice or more among the same pairs: a tokeniser can
    /// learn at least so many pieces.
    pub repeated: u64,
}

impl Facts {
    /// Reads a corpus through.
    ///
    /// # Errors
    /// If it cannot be read as pairs of text, or has none with text on both sides.
    pub fn measure(corpus: &Corpus) -> Result<Self> {
        let mut facts = Self::default();
        let mut counts: [Counts; 2] = Default::default();
        let mut pairs = corpus.pairs()?;
        while let Some(pair) = pairs.next_pair()? {
            let texts = [pair.source, pair.target];
            if texts.iter().any(|text| text.trim().is_empty()) {
                continue;
            }
            facts.pairs += 1;
            for ((side, counts), text) in facts.sides.iter_mut().zip(&mut counts).zip(texts) {
                let chars = text.chars().count() as u64;
                side.chars += chars;
                side.words += text.split_whitespace().count() as u64;
                side.longest = side.longest.max(chars);
                if facts.pairs <= LOOKED_AT {
                    counts.add(text);
                }
            }
        }
        if facts.pairs == 0 {
            let what = corpus.source_path().display().to_string();
            return Err(polyhead_text::Error::Empty { what }.into());
        }
        for (side, counts) in facts.sides.iter_mut().zip(&counts) {
            side.kinds = counts.words.len() as u64;
            side.once = counts.words.values().filter(|&&count| count == 1).count() as u64;
            side.repeated = counts.runs.values().filter(|&&count| count > 1).count() as u64;
        }
        Ok(facts)
    }

    /// The mean of a number of a side over all pairs.
    pub(super) fn mean(&self, total: u64) -> f64 {
        total as f64 / self.pairs.max(1) as f64
    }
}

/// How often each word and each run of letters occurs, by a hash.
#[derive(Debug, Default)]
struct Counts {
    words: HashMap<u64, u32>,
    runs: HashMap<u64, u32>,
}

impl Counts {
    fn add(&mut self, text: &str) {
        for word in text.split_whitespace() {
            *self.words.entry(hash(word)).or_default() += 1;
        }
        for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| run.chars().nth(1).is_some()) {
            *self.runs.entry(hash(run)).or_default() += 1;
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_corpus_by_hand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tsv");
        std::fs::write(&path, "the cat.\tdie Katze.\nthe dog\tder Hund\n\tleer\nthe cat\tdie Katze\n")
            .unwrap();
        let corpus = Corpus::Tsv { path: path.clone(), source_column: 0, target_column: 1 };
        let Facts { pairs, sides: [source, target] } = Facts::measure(&corpus).unwrap();
        assert_eq!(pairs, 3);
        assert_eq!(source, SideFacts { words: 6, chars: 22, longest: 8, kinds: 4, once: 3, repeated: 2 });
        assert_eq!((target.kinds, target.once, target.repeated), (5, 4, 2));
        std::fs::write(&path, "\tx\n").unwrap();
        let error = Facts::measure(&corpus).unwrap_err().to_string();
        assert!(error.ends_with("no text found, expected at least one line that is not empty"), "{error}");
    }
}
