//! Hashing of a word's character n-grams to rows of the weight table.
//!
//! A word is padded with a space on each side; its n-grams are all substrings of 1 to `max_n` characters. Those of the
//! plain spelling always count, those of the original spelling if they hold an accent; a long word also counts as a
//! whole. The hash is part of the file format: changing it needs a new version of the format.

use super::words::{Word, each_word};

/// Padding at both ends of a word.
const END: char = ' ';
/// Longest n-gram of the original spelling.
const MAX_MARKED: usize = 3;

/// Initial hashes of the three kinds of n-grams.
const PLAIN: u32 = 0x811c_9dc5;
const MARKED: u32 = 0x2c1b_3c6d;
const WHOLE: u32 = 0x297a_2d39;

/// Map from text to rows of the weight table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NgramHasher {
    /// Known letters besides a to z, ascending; n-grams with other letters are ignored.
    pub(super) letters: Vec<char>,
    /// Longest n-gram.
    pub(super) max_n: usize,
    /// Rows of the weight table. N-grams with the same row share its weights.
    pub(super) n_rows: usize,
}

impl NgramHasher {
    /// Calls `found` with the row of every n-gram of `text`.
    pub(super) fn each_row(&self, text: &str, mut found: impl FnMut(usize)) {
        each_word(text, |word| self.each_row_of(word, &mut found));
    }

    /// Calls `found` with the row of every n-gram of `word`.
    pub(super) fn each_row_of(&self, word: &Word, found: &mut impl FnMut(usize)) {
        let knows = |c: char| c.is_ascii_lowercase() || self.letters.binary_search(&c).is_ok();
        let n_rows = self.n_rows as u64;
        each_ngram(word, self.max_n, knows, |hash| found(((u64::from(hash) * n_rows) >> 32) as usize));
    }
}

/// Calls `found` with the hash of every n-gram of `word` whose letters are all known.
fn each_ngram(word: &Word, max_n: usize, knows: impl Fn(char) -> bool, mut found: impl FnMut(u32)) {
    let Word { plain, marked } = word;
    substrings(plain, max_n, PLAIN, &knows, |hash, _| found(finish(hash)));
    if plain.len() + 2 > max_n && plain.iter().all(|&c| knows(c)) {
        found(finish(plain.iter().fold(WHOLE, |hash, &c| step(hash, c))));
    }
    if plain != marked {
        substrings(marked, max_n.min(MAX_MARKED), MARKED, &knows, |hash, is_ascii| {
            if !is_ascii {
                found(finish(hash));
            }
        });
    }
}

/// Calls `found(hash, is_ascii)` for the substrings of ` letters ` of up to `max_n` known characters.
fn substrings(
    letters: &[char],
    max_n: usize,
    seed: u32,
    knows: &impl Fn(char) -> bool,
    mut found: impl FnMut(u32, bool),
) {
    let padded = |at: usize| if at == 0 { END } else { letters.get(at - 1).copied().unwrap_or(END) };
    for start in 0..=letters.len() {
        let (mut hash, mut is_ascii) = (seed, true);
        for at in start..(start + max_n).min(letters.len() + 2) {
            let c = padded(at);
            if c != END && !knows(c) {
                break;
            }
            hash = step(hash, c);
            is_ascii &= c.is_ascii();
            // The padding alone is no n-gram.
            if at > start || c != END {
                found(hash, is_ascii);
            }
        }
    }
}

fn step(hash: u32, c: char) -> u32 {
    (hash ^ c as u32).wrapping_mul(0x0100_0193).rotate_left(5)
}

/// Final mixing: spreads a hash over all 32 bits.
fn finish(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x7feb_352d);
    let hash = (hash ^ hash >> 15).wrapping_mul(0x846c_a68b);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_grams(plain: &str, marked: &str, known: &str, max_n: usize) -> usize {
        let word = Word { plain: plain.chars().collect(), marked: marked.chars().collect() };
        let mut count = 0;
        each_ngram(&word, max_n, |c| known.contains(c), |_| count += 1);
        count
    }

    #[test]
    fn n_grams_are_those_of_the_padded_word() {
        // a b | _a ab b_ | _ab ab_
        assert_eq!(n_grams("ab", "ab", "ab", 3), 7 + 1);
        // A word that is its own longest n-gram does not count as a whole again.
        assert_eq!(n_grams("ab", "ab", "ab", 4), 8);
        // é | _é ét with ends: é, _é, ét, _ét, ét_ on top of the plain ones.
        assert_eq!(n_grams("et", "ét", "eté", 4) - n_grams("et", "et", "eté", 4), 5);
    }

    #[test]
    fn n_grams_with_unknown_letters_are_ignored() {
        assert_eq!(n_grams("xyz", "xyz", "ab", 5), 0);
        // Of a x b: a, _a, b, b_.
        assert_eq!(n_grams("axb", "axb", "ab", 5), 4);
        assert_eq!(n_grams("a", "ã", "a", 5), n_grams("a", "a", "a", 5));
    }
}
