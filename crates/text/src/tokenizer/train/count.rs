//! Word counts: all that the trainers need of a text.
//!
//! Blocks of lines are counted in parallel. Sums of integers do not depend on order, and the result is sorted, so it is
//! the same for any number of threads.

use ahash::AHashMap;
use rayon::prelude::*;

use crate::Result;
use crate::tokenizer::normalization::Normalization;
use crate::tokenizer::words::WordSplit;

const BLOCK_BYTES: usize = 1 << 18;

/// Words with their counts, most frequent first, equal counts by spelling.
pub(crate) type WordCounts = Vec<(String, u64)>;

/// Counts the words of `lines` after normalisation.
pub(crate) fn count_words(
    lines: impl Iterator<Item = Result<String>> + Send,
    normalization: Normalization,
    split: WordSplit,
) -> Result<WordCounts> {
    let counts = Blocks { lines }
        .par_bridge()
        .map(|block| {
            let mut counts: AHashMap<String, u64> = AHashMap::new();
            for line in block? {
                split.each_word(&normalization.apply(&line), |word| match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(word.to_owned(), 1);
                    }
                });
            }
            Ok(counts)
        })
        .try_reduce(AHashMap::new, |a, b| Ok(join(a, b)))?;
    let mut counts: WordCounts = counts.into_iter().collect();
    counts.par_sort_unstable_by(|(word_a, count_a), (word_b, count_b)| {
        count_b.cmp(count_a).then_with(|| word_a.cmp(word_b))
    });
    Ok(counts)
}

fn join(a: AHashMap<String, u64>, b: AHashMap<String, u64>) -> AHashMap<String, u64> {
    let (mut large, small) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    for (word, count) in small {
        *large.entry(word).or_default() += count;
    }
    large
}

/// Lines in blocks of about [`BLOCK_BYTES`], one per task.
struct Blocks<I> {
    lines: I,
}

impl<I: Iterator<Item = Result<String>>> Iterator for Blocks<I> {
    type Item = Result<Vec<String>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut block = Vec::new();
        let mut bytes = 0;
        for line in self.lines.by_ref() {
            match line {
                Ok(line) => {
                    bytes += line.len();
                    block.push(line);
                }
                Err(error) => return Some(Err(error)),
            }
            if bytes >= BLOCK_BYTES {
                break;
            }
        }
        (!block.is_empty()).then_some(Ok(block))
    }
}

/// The characters with an entry of their own: the most frequent ones that together make up `coverage` of the text, and
/// every ASCII letter and digit in it. In code point order.
pub(crate) fn alphabet(words: &WordCounts, coverage: f64) -> Vec<char> {
    let mut counts: AHashMap<char, u64> = AHashMap::new();
    for (word, count) in words {
        for c in word.chars() {
            *counts.entry(c).or_default() += count;
        }
    }
    let total: u64 = counts.values().sum();
    let mut counts: Vec<(char, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|(char_a, a), (char_b, b)| b.cmp(a).then_with(|| char_a.cmp(char_b)));
    let wanted = coverage * total as f64;
    let mut covered = 0;
    let mut kept: Vec<char> = counts
        .into_iter()
        .filter(|&(c, count)| {
            let more = (covered as f64) < wanted;
            covered += count;
            more || c.is_ascii_alphanumeric()
        })
        .map(|(c, _)| c)
        .collect();
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_most_frequent_first() {
        let lines = ["ß ä", "ä ç ç", "ä"].map(|line| Ok(line.to_owned()));
        let counts = count_words(lines.into_iter(), Normalization::default(), WordSplit::Whitespace).unwrap();
        assert_eq!(counts, [("ä".to_owned(), 3), ("ç".to_owned(), 2), ("ß".to_owned(), 1)]);
        assert_eq!(alphabet(&counts, 1.0), ['ß', 'ä', 'ç']);
        assert_eq!(alphabet(&counts, 0.8), ['ä', 'ç']);
        assert_eq!(alphabet(&vec![("äQ1".into(), 1), ("ä".into(), 99)], 0.9), ['1', 'Q', 'ä']);
    }
}
