//! Phrases: word pairs that occur together far more often than chance, joined into one word, as in "new_york".
//!
//! The score of Mikolov et al. 2013 (*Distributed representations of words and phrases and their compositionality*):
//! (count(a b) − δ) · N / (count(a) · count(b)), for N words of text. A pair above the threshold becomes one word, from left to
//! right; a word joins one phrase at most.

use ahash::AHashMap;

use super::corpus::LINE_END;

/// Which pairs become phrases.
#[derive(Debug, Clone, PartialEq)]
pub struct PhraseOptions {
    /// δ: pairs that occur at most so often are never phrases. Default: 5.
    pub min_count: u64,
    /// Lowest score of a phrase. Default: 100.
    pub threshold: f64,
}

impl Default for PhraseOptions {
    fn default() -> Self {
        Self { min_count: 5, threshold: 100.0 }
    }
}

/// Joins phrases in place: changes ids, adds the phrases to `words` and their `counts`, and takes their parts off the counts.
/// Returns the number of ids that are left.
pub(crate) fn join(
    ids: &mut [u32],
    words: &mut Vec<String>,
    counts: &mut Vec<u64>,
    options: &PhraseOptions,
) -> usize {
    let mut pairs: AHashMap<(u32, u32), u64> = AHashMap::new();
    for pair in ids.windows(2) {
        let frequent = |id: u32| id != LINE_END && counts[id as usize] > options.min_count;
        if frequent(pair[0]) && frequent(pair[1]) {
            *pairs.entry((pair[0], pair[1])).or_default() += 1;
        }
    }
    let n_words: u64 = counts.iter().sum();
    pairs.retain(|&(first, second), count| {
        let [a, b] = [first, second].map(|id| counts[id as usize] as f64);
        let score = count.saturating_sub(options.min_count) as f64 * n_words as f64 / (a * b);
        score > options.threshold
    });
    let mut phrases: AHashMap<(u32, u32), u32> = AHashMap::new();
    let (mut read, mut written) = (0, 0);
    while read < ids.len() {
        let pair = (ids[read], ids.get(read + 1).copied().unwrap_or(LINE_END));
        let id = if pairs.contains_key(&pair) {
            let id = *phrases.entry(pair).or_insert_with(|| {
                words.push(format!("{}_{}", words[pair.0 as usize], words[pair.1 as usize]));
                counts.push(0);
                words.len() as u32 - 1
            });
            counts[id as usize] += 1;
            counts[pair.0 as usize] -= 1;
            counts[pair.1 as usize] -= 1;
            read += 2;
            id
        } else {
            read += 1;
            pair.0
        };
        ids[written] = id;
        written += 1;
    }
    written
}
