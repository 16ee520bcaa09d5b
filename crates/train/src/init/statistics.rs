//! Corpus statistics that decide the settings of a recipe.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use polyhead_text::corpus::Corpus;

use crate::Result;

/// Pairs whose different words are counted; more would change no setting.
const COUNTED_PAIRS: u64 = 200_000;

/// Statistics of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorpusStatistics {
    /// Pairs with text on both sides.
    pub pairs: u64,
    /// Source and target.
    pub sides: [SideStatistics; 2],
}

/// Statistics of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideStatistics {
    /// Whitespace-separated words.
    pub words: u64,
    /// Characters.
    pub chars: u64,
    /// Characters of the longest line.
    pub longest: u64,
    /// Different whitespace-separated words in the first 200,000 pairs.
    pub kinds: u64,
    /// Words of `kinds` that occur once.
    pub once: u64,
    /// Different runs of two or more letters and digits that occur at least twice in the same pairs: a lower bound of the
    /// subwords that a tokeniser can learn.
    pub repeated: u64,
}

impl CorpusStatistics {
    /// Reads a whole corpus.
    ///
    /// # Errors
    /// If it cannot be read as pairs of text, or has none with text on both sides.
    pub fn measure(corpus: &Corpus) -> Result<Self> {
        let mut stats = Self::default();
        let mut counts: [Counts; 2] = Default::default();
        let mut pairs = corpus.pairs()?;
        while let Some(pair) = pairs.next_pair()? {
            let texts = [pair.source, pair.target];
            if texts.iter().any(|text| text.trim().is_empty()) {
                continue;
            }
            stats.pairs += 1;
            for ((side, counts), text) in stats.sides.iter_mut().zip(&mut counts).zip(texts) {
                let chars = text.chars().count() as u64;
                side.chars += chars;
                side.words += text.split_whitespace().count() as u64;
                side.longest = side.longest.max(chars);
                if stats.pairs <= COUNTED_PAIRS {
                    counts.add(text);
                }
            }
        }
        if stats.pairs == 0 {
            let what = corpus.source_path().display().to_string();
            return Err(polyhead_text::Error::Empty { what }.into());
        }
        for (side, counts) in stats.sides.iter_mut().zip(&counts) {
            side.kinds = counts.words.len() as u64;
            side.once = counts.words.values().filter(|&&count| count == 1).count() as u64;
            side.repeated = counts.runs.values().filter(|&&count| count > 1).count() as u64;
        }
        Ok(stats)
    }

    /// `total` per pair.
    pub(super) fn mean(&self, total: u64) -> f64 {
        total as f64 / self.pairs.max(1) as f64
    }
}

/// Frequencies of words and of runs of letters, by hash.
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
        let CorpusStatistics { pairs, sides: [source, target] } = CorpusStatistics::measure(&corpus).unwrap();
        assert_eq!(pairs, 3);
        assert_eq!(
            source,
            SideStatistics { words: 6, chars: 22, longest: 8, kinds: 4, once: 3, repeated: 2 }
        );
        assert_eq!((target.kinds, target.once, target.repeated), (5, 4, 2));
        std::fs::write(&path, "\tx\n").unwrap();
        let error = CorpusStatistics::measure(&corpus).unwrap_err().to_string();
        assert!(error.ends_with("no text found, expected at least one line that is not empty"), "{error}");
    }
}
