//! Hypotheses that spell one text in other pieces, as `boit` and `bo` `it`: of them the one that came first goes on.
//!
//! A model that learned from words in several cuts (BPE-dropout: Provilkov, Emelianenko & Voita 2020) can write one text in
//! many ways, and a beam fills with them. Texts are compared by a hash that concatenation respects,
//! h(xy) = h(x) · b^|y| + h(y) modulo 2⁶¹ − 1 (Karp & Rabin 1987).
//!
//! ```
//! use polyhead_models::decode::spelling::Spellings;
//! let spellings = Spellings::new(["▁bo", "it", "▁boit", "▁bois"]);
//! assert_eq!(spellings.text(&[0, 1]), spellings.text(&[2]));
//! assert_ne!(spellings.text(&[0, 1]), spellings.text(&[3]));
//! ```

/// 2⁶¹ − 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;
/// b: no small number, so that short texts spread.
const BASE: u64 = 0x0123_4567_89ab_cdef;

/// What each token writes, as a hash of its bytes and what that of the text before it is multiplied by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spellings {
    tokens: Vec<(u64, u64)>,
}

impl Spellings {
    /// Of the pieces of a vocabulary, in the order of their ids: what each adds to the text, an empty one for what ends it.
    /// Where words begin must be a part of the pieces (`▁` or `Ġ`); where it is the joints that are marked (`@@`, `##`), *in to*
    /// and *into* would be one text.
    pub fn new(pieces: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let token = |piece: &str| {
            let byte =
                |(hash, power), byte| (plus(times(hash, BASE), u64::from(byte) + 1), times(power, BASE));
            piece.bytes().fold((0, 1), byte)
        };
        Self { tokens: pieces.into_iter().map(|piece| token(piece.as_ref())).collect() }
    }

    /// The hash of the text that tokens write; ids beyond the vocabulary write nothing.
    pub fn text(&self, ids: &[u32]) -> u64 {
        ids.iter().fold(0, |text, &id| self.then(text, id))
    }

    /// The hash of a text with one token more.
    pub(super) fn then(&self, text: u64, id: u32) -> u64 {
        self.tokens.get(id as usize).map_or(text, |&(hash, power)| plus(times(text, power), hash))
    }
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

fn plus(a: u64, b: u64) -> u64 {
    (a + b) % MODULUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_hash_in_any_cut_and_other_texts_have_others() {
        let text = "▁Le▁chat▁boit▁du▁lait.";
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let whole = Spellings::new([text]).text(&[0]);
        for at in text.char_indices().map(|(at, _)| at) {
            assert_eq!(Spellings::new([&text[..at], &text[at..]]).text(&[0, 1]), whole);
        }
        let spellings = Spellings::new(&characters);
        let mut ids: Vec<u32> = (0..characters.len() as u32).collect();
        assert_eq!(spellings.text(&ids), whole);
        ids.swap(3, 4);
        assert_ne!(spellings.text(&ids), whole);
        assert_eq!(spellings.text(&[]), 0);
        assert_ne!(Spellings::new(["\0"]).text(&[0]), 0, "even a zero is something");
    }
}
