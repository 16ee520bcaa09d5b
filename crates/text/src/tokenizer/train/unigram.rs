//! Training of a unigram model: starts from many frequent substrings and prunes those that matter least.
//!
//! Kudo 2018, *Subword regularization*. The probability of a text is the sum over all its segmentations of the product
//! of the pieces' probabilities. EM estimates these (E: expected counts from the [lattice](super::lattice); M: digamma
//! of the counts, a sparse prior); between rounds the pieces whose removal lowers the likelihood least are pruned.
//!
//! Expected counts are summed in fixed point: integer sums do not depend on order, so the pieces are the same to the
//! bit for any number of threads.

use ahash::{AHashMap, AHashSet};
use rayon::prelude::*;

use super::count::WordCounts;
use super::lattice::{Lattice, Piece, PieceTrie};

/// EM rounds before each pruning.
const EM_ROUNDS: usize = 2;
/// Share of the pieces that remain after a pruning.
const SHRINK: f64 = 0.75;
/// Pruning stops at this multiple of the requested size; the final selection is by score.
const SLACK: f64 = 1.1;
/// Maximum number of initial pieces.
const MAX_SEEDS: usize = 1_000_000;
/// Maximum number of distinct words, by frequency, whose substrings are counted: a bound on memory.
const SEED_WORDS: usize = 200_000;
/// A piece with a lower expected count is removed.
const MIN_EXPECTED: f64 = 0.5;
/// Fixed-point steps per expected occurrence.
const FIXED_POINT: f64 = (1_u64 << 24) as f64;
const WORDS_PER_TASK: usize = 1024;

/// Options of unigram training.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnigramOptions {
    /// Number of pieces, alphabet included.
    pub(crate) n_pieces: usize,
    /// Longest piece, in characters.
    pub(crate) max_piece_chars: usize,
}

/// Pieces with log probabilities, best first; fewer than requested if the text does not yield more. Calls `advanced`
/// after each EM round.
pub(crate) fn learn(
    words: &WordCounts,
    alphabet: &[char],
    options: UnigramOptions,
    mut advanced: impl FnMut(),
) -> Vec<Piece> {
    let words = cut_at_gaps(words, alphabet);
    let mut pieces = seeds(&words, alphabet, options.max_piece_chars);
    let wanted = (options.n_pieces as f64 * SLACK) as usize;
    loop {
        for _ in 0..EM_ROUNDS {
            let expected = expect(&words, &PieceTrie::new(&pieces), pieces.len());
            pieces = maximise(pieces, &expected);
            advanced();
        }
        if pieces.len() <= wanted {
            break;
        }
        let keep = wanted.max((pieces.len() as f64 * SHRINK) as usize);
        let before = pieces.len();
        pieces = prune(&words, pieces, keep);
        if pieces.len() == before {
            break; // only single characters are left
        }
    }
    finish(pieces, alphabet, options.n_pieces)
}

/// Words split at characters outside the alphabet, each part with the count of the word.
fn cut_at_gaps(words: &WordCounts, alphabet: &[char]) -> WordCounts {
    let known: AHashSet<char> = alphabet.iter().copied().collect();
    let parts = words.iter().flat_map(|(word, count)| {
        word.split(|c| !known.contains(&c))
            .filter(|part| !part.is_empty())
            .map(|part| (part.to_owned(), *count))
    });
    parts.collect()
}

/// Initial pieces: every character, and the best substrings of the most frequent words by frequency × length.
fn seeds(words: &WordCounts, alphabet: &[char], max_chars: usize) -> Vec<Piece> {
    let frequent = &words[..words.len().min(SEED_WORDS)];
    let found =
        substrings(frequent, max_chars).into_iter().filter(|(piece, _)| piece.chars().nth(1).is_some());
    let mut found: Vec<(String, u64)> =
        found.map(|(piece, count)| (piece.to_owned(), count * piece.chars().count() as u64)).collect();
    found.sort_unstable_by(|(a, score_a), (b, score_b)| score_b.cmp(score_a).then_with(|| a.cmp(b)));
    found.truncate(MAX_SEEDS.saturating_sub(alphabet.len()));
    let mut char_counts: AHashMap<char, u64> = alphabet.iter().map(|&c| (c, 1)).collect();
    for (word, count) in words {
        for c in word.chars() {
            *char_counts.entry(c).or_default() += count;
        }
    }
    let chars = alphabet.iter().map(|c| (c.to_string(), char_counts[c]));
    let all: Vec<(String, u64)> = chars.chain(found).collect();
    let log_total = (all.iter().map(|&(_, score)| score).sum::<u64>() as f64).ln();
    all.into_iter().map(|(piece, score)| (piece, (score as f64).ln() - log_total)).collect()
}

/// Maximal substrings that occur at least twice: one that is always followed, or always preceded, by the same character
/// is omitted in favour of the longer one.
fn substrings<'a>(words: &'a [(String, u64)], max_chars: usize) -> AHashMap<&'a str, u64> {
    let mut counts: AHashMap<&'a str, u64> = AHashMap::new();
    for (word, count) in words {
        each_substring(word, max_chars, |piece, _| *counts.entry(piece).or_default() += count);
    }
    counts.retain(|_, count| *count >= 2);
    let mut longest = counts.clone();
    for (word, _) in words {
        each_substring(word, max_chars, |piece, [wider_left, wider_right]| {
            let count = counts.get(piece);
            if count.is_some()
                && [wider_left, wider_right].into_iter().flatten().any(|wider| counts.get(wider) == count)
            {
                longest.remove(piece);
            }
        });
    }
    longest
}

/// Calls `take(piece, [one character more on the left, one more on the right])` for all substrings of `word`.
fn each_substring<'a>(word: &'a str, max_chars: usize, mut take: impl FnMut(&'a str, [Option<&'a str>; 2])) {
    let borders: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
    for start in 0..borders.len() - 1 {
        for end in start + 1..borders.len().min(start + max_chars + 1) {
            let fits = end - start < max_chars;
            let left = (fits && start > 0).then(|| &word[borders[start - 1]..borders[end]]);
            let right = (fits && end + 1 < borders.len()).then(|| &word[borders[start]..borders[end + 1]]);
            take(&word[borders[start]..borders[end]], [left, right]);
        }
    }
}

/// E step: expected count of each piece, in fixed point.
fn expect(words: &WordCounts, trie: &PieceTrie, n_pieces: usize) -> Vec<u64> {
    sum_over_words(words, n_pieces, |lattice, word, count, sums| {
        lattice.fill(word, trie);
        lattice.posteriors(trie, |piece, posterior| {
            sums[piece as usize] += (posterior * count as f64 * FIXED_POINT).round() as u64;
        });
    })
}

/// Sums computed by `add(lattice, word, count, sums)` over all words, in parallel.
fn sum_over_words(
    words: &WordCounts,
    n_pieces: usize,
    add: impl Fn(&mut Lattice, &str, u64, &mut [u64]) + Sync,
) -> Vec<u64> {
    let start = || (Lattice::default(), vec![0; n_pieces]);
    words
        .par_chunks(WORDS_PER_TASK)
        .fold(start, |(mut lattice, mut sums), chunk| {
            for (word, count) in chunk {
                add(&mut lattice, word, *count, &mut sums);
            }
            (lattice, sums)
        })
        .map(|(_, sums)| sums)
        .reduce(
            || vec![0; n_pieces],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            },
        )
}

/// M step: log probabilities from expected counts.
fn maximise(pieces: Vec<Piece>, expected: &[u64]) -> Vec<Piece> {
    let kept: Vec<(String, f64)> = pieces
        .into_iter()
        .zip(expected)
        .map(|((piece, _), &expected)| (piece, expected as f64 / FIXED_POINT))
        .filter(|&(_, expected)| expected >= MIN_EXPECTED)
        .collect();
    let log_total = digamma(kept.iter().map(|&(_, expected)| expected).sum());
    kept.into_iter().map(|(piece, expected)| (piece, digamma(expected) - log_total)).collect()
}

/// Keeps the `keep` pieces whose removal would lower the likelihood most, and all single characters.
fn prune(words: &WordCounts, pieces: Vec<Piece>, keep: usize) -> Vec<Piece> {
    let trie = PieceTrie::new(&pieces);
    let used = sum_over_words(words, pieces.len(), |lattice, word, count, sums| {
        lattice.fill(word, &trie);
        lattice.best_path(&trie, None).into_iter().for_each(|piece| sums[piece as usize] += count);
    });
    let total: f64 = used.iter().sum::<u64>() as f64;
    let losses: Vec<Option<f64>> = pieces
        .par_iter()
        .enumerate()
        .map_init(Lattice::default, |lattice, (id, (piece, _))| {
            if piece.chars().nth(1).is_none() {
                return Some(f64::INFINITY);
            }
            lattice.fill(piece, &trie);
            let itself = lattice.best_path(&trie, None) == [id as u32];
            let count = used[id] as f64;
            if used[id] == 0 || !itself {
                return None;
            }
            // Without the piece, its occurrences take its next best segmentation.
            let instead = lattice.best_path(&trie, Some(id as u32));
            if instead.is_empty() {
                return Some(f64::INFINITY); // needed: one of its characters has no piece
            }
            let total_instead = total + count * (instead.len() as f64 - 1.0);
            let score_instead: f64 = instead
                .iter()
                .map(|&part| (used[part as usize] as f64 + count).ln() - total_instead.ln())
                .sum();
            Some(count * (count.ln() - total.ln() - score_instead))
        })
        .collect();
    let mut order: Vec<usize> = (0..pieces.len()).filter(|&id| losses[id].is_some()).collect();
    order.sort_by(|&a, &b| losses[b].partial_cmp(&losses[a]).expect("losses are numbers").then(a.cmp(&b)));
    order.truncate(keep);
    order.sort_unstable();
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    order.into_iter().filter_map(|id| pieces[id].take()).collect()
}

/// Every character and the best other pieces, best first.
fn finish(pieces: Vec<Piece>, alphabet: &[char], n_pieces: usize) -> Vec<Piece> {
    let lowest = pieces.iter().map(|&(_, score)| score).fold(0.0, f64::min);
    let mut chars: AHashMap<String, f64> = alphabet.iter().map(|c| (c.to_string(), lowest)).collect();
    let mut rest = Vec::new();
    for (piece, score) in pieces {
        match chars.get_mut(&piece) {
            Some(known) => *known = score,
            None => rest.push((piece, score)),
        }
    }
    let by_score = |(piece_a, a): &Piece, (piece_b, b): &Piece| {
        b.partial_cmp(a).expect("log probabilities are numbers").then_with(|| piece_a.cmp(piece_b))
    };
    rest.sort_by(by_score);
    rest.truncate(n_pieces.saturating_sub(chars.len()));
    rest.extend(chars);
    rest.sort_by(by_score);
    rest
}

/// ψ(x) for x > 0: the recurrence up to 6, then the asymptotic series (Abramowitz & Stegun 6.3.18).
fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 6.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let inverse_square = 1.0 / (x * x);
    let series = inverse_square
        * (1.0 / 12.0
            - inverse_square
                * (1.0 / 120.0
                    - inverse_square
                        * (1.0 / 252.0 - inverse_square * (1.0 / 240.0 - inverse_square / 132.0))));
    below + x.ln() - 0.5 / x - series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ψ(1) = −γ, ψ(1/2) = −γ − 2 ln 2, ψ(10) from tables.
    #[test]
    fn digamma_at_known_points() {
        let euler = 0.577_215_664_901_532_9;
        for (x, want) in [(1.0, -euler), (0.5, -euler - 2.0 * 2_f64.ln()), (10.0, 2.251_752_589_066_721)] {
            assert!((digamma(x) - want).abs() < 1e-9, "ψ({x}) = {} ≠ {want}", digamma(x));
        }
    }

    #[test]
    fn frequent_words_become_pieces() {
        let words: WordCounts = [("▁the", 50), ("▁cat", 30), ("▁hat", 20), ("▁that", 10), ("▁a", 5)]
            .map(|(word, count)| (word.to_owned(), count))
            .to_vec();
        let alphabet = super::super::count::alphabet(&words, 1.0);
        let options = UnigramOptions { n_pieces: alphabet.len() + 2, max_piece_chars: 16 };
        let pieces = learn(&words, &alphabet, options, || {});
        assert_eq!(pieces.len(), alphabet.len() + 2);
        assert!(alphabet.iter().all(|c| pieces.iter().any(|(piece, _)| *piece == c.to_string())));
        assert!(pieces.iter().any(|(piece, _)| piece == "▁the"), "{pieces:?}");
        assert!(pieces.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    }
}
