//! Training of byte-pair encoding: repeatedly merges the most frequent adjacent pair.
//!
//! Sennrich, Haddow & Birch 2016, *Neural machine translation of rare words with subword units*. Ties go to the pair
//! with the smaller ids, so the result is a pure function of the counts. Counts are updated at the neighbours of each
//! merge only; the heap also holds stale counts, which are corrected when they are popped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::AHashMap;

use super::count::WordCounts;

/// Result of training: tokens in the order of their ids (alphabet first), and merges in the order of their rank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LearnedMerges {
    /// The tokens; the caller puts special tokens before them.
    pub(crate) pieces: Vec<String>,
    /// Number of `pieces` from the alphabet.
    pub(crate) n_alphabet: usize,
    /// Left and right token of each merge.
    pub(crate) merges: Vec<(u32, u32)>,
}

/// Options of training.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeOptions<'a> {
    /// Maximum number of tokens.
    pub(crate) max_pieces: usize,
    /// A pair rarer than this is not merged.
    pub(crate) min_frequency: u64,
    /// Prefix of every token that does not begin a word: `##` for WordPiece, empty for BPE.
    pub(crate) continuing_prefix: &'a str,
}

type Pair = (u32, u32);

/// Replaces a character outside the alphabet; it is never merged.
const GAP: u32 = u32::MAX;

#[derive(Default)]
struct PairInfo {
    count: i64,
    /// Words that have contained the pair; later merges may have removed it from some.
    words: Vec<u32>,
}

/// Learns merges from `words` over the characters of `alphabet`; calls `merged` after each.
pub(crate) fn learn(
    words: &WordCounts,
    alphabet: &[char],
    options: MergeOptions<'_>,
    mut merged: impl FnMut(),
) -> LearnedMerges {
    let (mut pieces, mut symbols) = spell(words, alphabet, options.continuing_prefix);
    let mut ids: AHashMap<String, u32> = pieces.iter().cloned().zip(0..).collect();
    let n_alphabet = pieces.len();
    let mut pairs: AHashMap<Pair, PairInfo> = AHashMap::new();
    for (index, word) in symbols.iter().enumerate() {
        for pair in word.windows(2).filter(|pair| pair[0] != GAP && pair[1] != GAP) {
            add_count(&mut pairs, (pair[0], pair[1]), words[index].1 as i64, index as u32);
        }
    }
    let mut heap: BinaryHeap<(i64, Reverse<Pair>)> =
        pairs.iter().map(|(&pair, info)| (info.count, Reverse(pair))).collect();
    let mut merges = Vec::new();
    while pieces.len() < options.max_pieces {
        let Some((count, Reverse(pair))) = heap.pop() else { break };
        let current = pairs.get(&pair).map_or(0, |info| info.count);
        if count != current {
            if current > 0 {
                heap.push((current, Reverse(pair)));
            }
            continue;
        }
        if count < 1 || (count as u64) < options.min_frequency {
            break;
        }
        let right = &pieces[pair.1 as usize];
        let right = right.strip_prefix(options.continuing_prefix).unwrap_or(right);
        let piece = format!("{}{right}", pieces[pair.0 as usize]);
        let next_id = pieces.len() as u32;
        let id = *ids.entry(piece.clone()).or_insert(next_id);
        if id == next_id {
            pieces.push(piece);
        }
        merges.push(pair);
        let info = pairs.remove(&pair).unwrap_or_default();
        for changed in merge_pair(&mut symbols, words, &mut pairs, &info.words, (pair, id)) {
            heap.push((pairs[&changed].count, Reverse(changed)));
        }
        merged();
    }
    LearnedMerges { pieces, n_alphabet, merges }
}

/// The alphabet as tokens, and every word as their ids.
fn spell(words: &WordCounts, alphabet: &[char], prefix: &str) -> (Vec<String>, Vec<Vec<u32>>) {
    let known: ahash::AHashSet<char> = alphabet.iter().copied().collect();
    let spelled = |word: &str| -> Vec<Option<(bool, char)>> {
        let mut first = true;
        word.chars()
            .map(|c| {
                let starts = std::mem::take(&mut first) || prefix.is_empty();
                known.contains(&c).then_some((starts, c))
            })
            .collect()
    };
    let mut used: Vec<(bool, char)> = if prefix.is_empty() {
        alphabet.iter().map(|&c| (true, c)).collect()
    } else {
        let all: ahash::AHashSet<(bool, char)> =
            words.iter().flat_map(|(word, _)| spelled(word)).flatten().collect();
        all.into_iter().collect()
    };
    // Tokens that begin a word first, each group in code point order.
    used.sort_unstable_by_key(|&(starts, c)| (!starts, c));
    let ids: AHashMap<(bool, char), u32> = used.iter().copied().zip(0..).collect();
    let pieces = used.iter().map(|&(starts, c)| if starts { c.to_string() } else { format!("{prefix}{c}") });
    let symbols = words
        .iter()
        .map(|(word, _)| {
            spelled(word).into_iter().map(|symbol| symbol.map_or(GAP, |symbol| ids[&symbol])).collect()
        })
        .collect();
    (pieces.collect(), symbols)
}

fn add_count(pairs: &mut AHashMap<Pair, PairInfo>, pair: Pair, count: i64, word: u32) {
    let info = pairs.entry(pair).or_default();
    info.count += count;
    if info.words.last() != Some(&word) {
        info.words.push(word);
    }
}

/// Merges `pair` into `id` in the words at `places`; returns the pairs that became more frequent.
fn merge_pair(
    symbols: &mut [Vec<u32>],
    words: &WordCounts,
    pairs: &mut AHashMap<Pair, PairInfo>,
    places: &[u32],
    ((left, right), id): (Pair, u32),
) -> Vec<Pair> {
    let mut grown = Vec::new();
    for &index in places {
        let word = &mut symbols[index as usize];
        let count = words[index as usize].1 as i64;
        let lose = |pairs: &mut AHashMap<Pair, PairInfo>, a: u32, b: u32| {
            if let Some(info) = pairs.get_mut(&(a, b)) {
                info.count -= count;
            }
        };
        let (mut read, mut write) = (0, 0);
        while read < word.len() {
            if word[read] != left || word.get(read + 1) != Some(&right) {
                word[write] = word[read];
                (read, write) = (read + 1, write + 1);
                continue;
            }
            if write > 0 && word[write - 1] != GAP {
                let before = word[write - 1];
                lose(pairs, before, left);
                add_count(pairs, (before, id), count, index);
                grown.push((before, id));
            }
            if let Some(&after) = word.get(read + 2).filter(|&&after| after != GAP) {
                lose(pairs, right, after);
                add_count(pairs, (id, after), count, index);
                grown.push((id, after));
            }
            word[write] = id;
            (read, write) = (read + 2, write + 1);
        }
        word.truncate(write);
    }
    grown.sort_unstable();
    grown.dedup();
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn_from(words: &[(&str, u64)], max_pieces: usize, prefix: &str) -> LearnedMerges {
        let words: WordCounts = words.iter().map(|&(word, count)| (word.to_owned(), count)).collect();
        let alphabet = super::super::count::alphabet(&words, 1.0);
        let options = MergeOptions { max_pieces, min_frequency: 1, continuing_prefix: prefix };
        learn(&words, &alphabet, options, || {})
    }

    /// The words of Sennrich et al.: low, lower, newest, widest. `es`, `st` and `t·` occur nine times each; the
    /// smallest ids go first, so `t·` comes before the longer `est`.
    #[test]
    fn the_papers_example() {
        let learned = learn_from(&[("low·", 5), ("lower·", 2), ("newest·", 6), ("widest·", 3)], 15, "");
        assert_eq!(learned.pieces[learned.n_alphabet..], ["es", "t·", "est·", "lo"]);
    }

    #[test]
    fn overlapping_pairs_are_counted_exactly() {
        // "aaaa" becomes aa aa, then aaaa; no pair is left after that.
        let learned = learn_from(&[("aaaa", 1)], 10, "");
        assert_eq!(learned.pieces, ["a", "aa", "aaaa"]);
        assert_eq!(learned.merges, [(0, 0), (1, 1)]);
    }

    #[test]
    fn word_piece_marks_continuations() {
        let learned = learn_from(&[("abc", 5), ("bc", 3)], 8, "##");
        assert_eq!(learned.pieces, ["a", "b", "##b", "##c", "ab", "abc", "bc"]);
    }

    /// Incremental counts equal a full count before each merge.
    #[test]
    fn incremental_counts_equal_a_full_count() {
        let random = polyhead_random::Random::new(3);
        let mut words: WordCounts = (0..60)
            .map(|w| {
                let word = random.stream(w);
                let len = 1 + word.below(9, 0) as u64;
                (
                    (0..len).map(|i| ['a', 'b', 'c'][word.below(3, 1 + i)]).collect(),
                    1 + word.below(5, 99) as u64,
                )
            })
            .collect();
        words.sort();
        words.dedup_by(|a, b| a.0 == b.0);
        let fast = learn(
            &words,
            &['a', 'b', 'c'],
            MergeOptions { max_pieces: 40, min_frequency: 1, continuing_prefix: "" },
            || {},
        );
        let mut pieces: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut spelled: Vec<Vec<u32>> =
            words.iter().map(|(word, _)| word.bytes().map(|byte| u32::from(byte - b'a')).collect()).collect();
        for &merge in &fast.merges {
            let mut counts: AHashMap<Pair, i64> = AHashMap::new();
            for (word, (_, count)) in spelled.iter().zip(&words) {
                word.windows(2)
                    .for_each(|pair| *counts.entry((pair[0], pair[1])).or_default() += *count as i64);
            }
            let best = counts.into_iter().max_by_key(|&(pair, count)| (count, Reverse(pair))).unwrap().0;
            assert_eq!(best, merge);
            let piece = format!("{}{}", pieces[best.0 as usize], pieces[best.1 as usize]);
            let id = pieces.iter().position(|known| *known == piece).unwrap_or(pieces.len()) as u32;
            if id as usize == pieces.len() {
                pieces.push(piece);
            }
            for word in &mut spelled {
                let mut at = 0;
                while at + 1 < word.len() {
                    if (word[at], word[at + 1]) == best {
                        word[at] = id;
                        word.remove(at + 1);
                    }
                    at += 1;
                }
            }
        }
        assert_eq!(pieces, fast.pieces);
    }
}
