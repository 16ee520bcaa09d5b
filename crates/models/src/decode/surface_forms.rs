//! Surface forms of hypotheses: different segmentations of the same text, such as `boit` and `bo` `it`, are duplicates.
//!
//! A model trained on several segmentations (BPE-dropout: Provilkov, Emelianenko & Voita 2020) can generate one text in
//! many ways, and a beam fills up with them. Texts are compared by a rolling hash, which is compatible with
//! concatenation: h(xy) = h(x) · b^|y| + h(y) modulo 2⁶¹ − 1 (Karp & Rabin 1987).
//!
//! ```
//! use polyhead_models::decode::surface_forms::SurfaceForms;
//! let forms = SurfaceForms::new(["▁bo", "it", "▁boit", "▁bois"]);
//! assert_eq!(forms.hash(&[0, 1]), forms.hash(&[2]));
//! assert_ne!(forms.hash(&[0, 1]), forms.hash(&[3]));
//! ```

/// 2⁶¹ − 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;
/// b, large so that short texts spread over the range.
const BASE: u64 = 0x0123_4567_89ab_cdef;

/// The surface form of each token, as the hash of its bytes and the factor b^length for the hash of the text before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceForms {
    tokens: Vec<(u64, u64)>,
}

impl SurfaceForms {
    /// The surface forms of a vocabulary, in the order of the ids: the text that each token adds, empty for the end
    /// token. Word boundaries must be part of the tokens (`▁` or `Ġ`); where continuations are marked instead (`@@`,
    /// `##`), *in to* and
    /// *into* would be the same text.
    pub fn new(pieces: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let token = |piece: &str| {
            let byte =
                |(hash, power), byte| (plus(times(hash, BASE), u64::from(byte) + 1), times(power, BASE));
            piece.bytes().fold((0, 1), byte)
        };
        Self { tokens: pieces.into_iter().map(|piece| token(piece.as_ref())).collect() }
    }

    /// The hash of the text of `ids`; ids outside the vocabulary add nothing.
    pub fn hash(&self, ids: &[u32]) -> u64 {
        ids.iter().fold(0, |text, &id| self.extend(text, id))
    }

    /// The hash of a text extended by one token.
    pub(super) fn extend(&self, text: u64, id: u32) -> u64 {
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
    fn the_hash_depends_on_the_text_but_not_on_its_segmentation() {
        let text = "▁Le▁chat▁boit▁du▁lait.";
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let whole = SurfaceForms::new([text]).hash(&[0]);
        for at in text.char_indices().map(|(at, _)| at) {
            assert_eq!(SurfaceForms::new([&text[..at], &text[at..]]).hash(&[0, 1]), whole);
        }
        let forms = SurfaceForms::new(&characters);
        let mut ids: Vec<u32> = (0..characters.len() as u32).collect();
        assert_eq!(forms.hash(&ids), whole);
        ids.swap(3, 4);
        assert_ne!(forms.hash(&ids), whole);
        assert_eq!(forms.hash(&[]), 0);
        assert_ne!(SurfaceForms::new(["\0"]).hash(&[0]), 0, "a zero byte changes the hash");
    }
}
