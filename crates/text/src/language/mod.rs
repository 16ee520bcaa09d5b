//! Language identification by character n-grams.
//!
//! A linear model over hashed n-grams, p(l | x) = softmaxₗ( Σ_{g ∈ x} w[h(g)]ₗ / √|x| ), where x are the n-grams of all
//! words, h maps each to a row of the table w, and the division keeps one word and a page on the same scale. The
//! n-grams are those of Cavnar & Trenkle (1994, *N-gram-based text categorization*), the hashing that of Weinberger et
//! al. (2009, *Feature hashing for large scale multitask learning*), the classifier that of Joulin et al. (2016, *Bag
//! of tricks for efficient text classification*) without its hidden layer.
//!
//! - `words.rs` finds the words and drops case, addresses and digits;
//! - `ngrams.rs` hashes their n-grams to rows;
//! - `train.rs` trains the weights;
//! - `file.rs` is the file format.

mod file;
mod ngrams;
mod train;
mod words;

use std::borrow::Cow;
use std::sync::OnceLock;

use self::ngrams::NgramHasher;
pub use self::train::{IdentifierOptions, Trainer};
use crate::{Error, Result};

/// The built-in identifier; trained by `recipes/detect.sh`.
const FOUR: &[u8] = include_bytes!("../../assets/four.ngrams");

/// Language identifier: trained, or read from a file; [`Identifier::four`] is built in.
///
/// ```
/// use polyhead_text::language::Identifier;
/// let detection = Identifier::four().identify("Kedi fareyi yedi.").expect("it has letters");
/// assert_eq!(detection.code, "tr");
/// assert!(detection.probability > 0.9);
/// assert!(Identifier::four().identify("12:30").is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Identifier {
    /// Language codes, in the order of the columns of `weights`.
    codes: Vec<String>,
    hasher: NgramHasher,
    /// Scale of the int8 weights.
    scale: f32,
    /// Row by row, `hasher.n_rows` × `codes.len()` int8 values.
    weights: Cow<'static, [u8]>,
}

/// Languages of a text by probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Code of the most probable language, such as `en`.
    pub code: String,
    /// Its probability, 0 to 1, given that the text is in one of the known languages.
    pub probability: f64,
    /// The other languages, the most probable first; all probabilities sum to 1.
    pub others: Vec<(String, f64)>,
}

impl Identifier {
    /// The built-in identifier of English, German, French and Turkish (`en`, `de`, `fr`, `tr`).
    pub fn four() -> &'static Self {
        static IDENTIFIER: OnceLock<Identifier> = OnceLock::new();
        IDENTIFIER.get_or_init(|| {
            file::decode(Cow::Borrowed(FOUR), "built in".as_ref()).expect("a test reads this file")
        })
    }

    /// Codes of the known languages.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.codes.iter().map(String::as_str)
    }

    /// Detects the language of `text`; `None` if it holds no letter of a known language. Upper case, missing accents,
    /// digits, addresses and e-mails do not matter.
    pub fn identify(&self, text: &str) -> Option<Detection> {
        self.detect(text, |_| true)
    }

    /// Detects the language of `text` among `codes` only; `None` if it holds no letter of a known language, or none of
    /// the codes is known.
    pub fn identify_among(&self, text: &str, codes: &[&str]) -> Option<Detection> {
        self.detect(text, |code| codes.contains(&code))
    }

    /// Checks that `codes` is not empty and every code is known.
    pub fn check_codes(&self, codes: &[&str]) -> Result<()> {
        let unknown = codes.iter().find(|code| !self.codes.iter().any(|known| known == *code));
        let found = match unknown {
            Some(code) => format!("{code:?}"),
            None if codes.is_empty() => "no language".into(),
            None => return Ok(()),
        };
        Err(Error::Option {
            name: "languages",
            found,
            expected: format!("some of {}", self.codes.join(", ")),
            hint:
                "train an identifier for other languages with: polyhead detect --train CODE=FILE … --out FILE"
                    .into(),
        })
    }

    /// Probability of each language, in the order of [`Identifier::codes`]; `None` if `text` holds no letter of a known
    /// language.
    pub(crate) fn probabilities(&self, text: &str) -> Option<Vec<f64>> {
        let mut scores = self.scores(text)?;
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for score in &mut scores {
            *score = (*score - best).exp();
        }
        let total: f64 = scores.iter().sum();
        Some(scores.into_iter().map(|score| score / total).collect())
    }

    /// Score of each language, the logarithm of its probability up to a constant.
    fn scores(&self, text: &str) -> Option<Vec<f64>> {
        let n_codes = self.codes.len();
        let mut sums = vec![0_i64; n_codes];
        let mut n_grams = 0_u64;
        self.hasher.each_row(text, |row| {
            n_grams += 1;
            let row = &self.weights[row * n_codes..][..n_codes];
            for (sum, &weight) in sums.iter_mut().zip(row) {
                *sum += i64::from(weight.cast_signed());
            }
        });
        let unit = f64::from(self.scale) / (n_grams as f64).sqrt();
        (n_grams > 0).then(|| sums.into_iter().map(|sum| sum as f64 * unit).collect())
    }

    fn detect(&self, text: &str, is_candidate: impl Fn(&str) -> bool) -> Option<Detection> {
        let scores = self.scores(text)?;
        let scores = self.codes.iter().zip(scores).filter(|(code, _)| is_candidate(code));
        let mut ranked: Vec<(String, f64)> = scores.map(|(code, score)| (code.clone(), score)).collect();
        // Equal scores stay in the order of the codes.
        ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let best = ranked.first()?.1;
        let total: f64 = ranked.iter().map(|(_, score)| (score - best).exp()).sum();
        for (_, score) in &mut ranked {
            *score = (*score - best).exp() / total;
        }
        let (code, probability) = ranked.remove(0);
        Some(Detection { code, probability, others: ranked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(text: &str) -> String {
        Identifier::four().identify(text).expect("letters").code
    }

    #[test]
    fn short_texts_are_identified() {
        for (expected, texts) in [
            (
                "en",
                [
                    "The cat ate the mouse.",
                    "I AM A STUDENT",
                    "Where is it?",
                    "thanks",
                    "We went to the river bank.",
                ],
            ),
            (
                "de",
                ["Ich bin Student.", "WIE GEHT ES DIR?", "schoen", "Guten Morgen", "Die Straße war zu breit"],
            ),
            (
                "fr",
                ["Je suis étudiant", "je suis etudiant", "L’ANIMAL ÉTAIT FATIGUÉ", "merci", "Où est-elle ?"],
            ),
            ("tr", ["Kedi fareyi yedi.", "Isik nerede?", "IŞIK", "SEN NEREDESIN", "tesekkurler"]),
        ] {
            for text in texts {
                assert_eq!(code(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn addresses_and_digits_are_ignored() {
        let detection = |text: &str| Identifier::four().identify(text);
        let plain = detection("Kedi geldi");
        assert_eq!(
            detection(
                "Kedi 12 https://www.example.com/the/english/page the.cat@which.example.org mp3 geldi 3.5"
            ),
            plain
        );
        assert_eq!(detection("KEDI GELDI!"), plain);
        for nothing in ["", " ", "12:30", "?!", "🙂", "https://example.com/hello", "me@example.com", "漢字"]
        {
            assert_eq!(detection(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_requested_languages_are_candidates() {
        let four = Identifier::four();
        let detection = four.identify_among("Kedi fareyi yedi.", &["fr", "de"]).expect("letters");
        assert_eq!(detection.others.len(), 1);
        assert!(["fr", "de"].contains(&detection.code.as_str()), "{detection:?}");
        assert_eq!(four.identify_among("the", &["de"]).expect("letters").probability, 1.0);
        assert_eq!(four.identify_among("the", &["xx"]), None);
        assert!(four.check_codes(&["tr", "en"]).is_ok());
        let error = four.check_codes(&["en", "xx"]).unwrap_err().to_string();
        assert_eq!(error, "languages: \"xx\", expected some of en, de, fr, tr");
    }

    #[test]
    fn the_built_in_file_is_small() {
        assert!(FOUR.len() <= 150_000, "{}", FOUR.len());
        assert_eq!(Identifier::four().codes().collect::<Vec<_>>(), ["en", "de", "fr", "tr"]);
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one(text in any::<String>()) {
            let four = Identifier::four();
            let detection = four.identify(&text);
            prop_assert_eq!(&detection, &four.identify(&text));
            if let Some(Detection { probability, others, .. }) = detection {
                let all: Vec<f64> = std::iter::once(probability).chain(others.iter().map(|(_, p)| *p)).collect();
                prop_assert!(all.is_sorted_by(|a, b| a >= b) && all.iter().all(|p| (0.0..=1.0).contains(p)), "{:?}", all);
                prop_assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn any_letter_gives_a_detection(text in "[A-Za-zéüşı ,!]{0,20}") {
            let has_letters = text.chars().any(char::is_alphabetic);
            prop_assert_eq!(Identifier::four().identify(&text).is_some(), has_letters);
        }

        #[test]
        fn case_and_order_of_words_do_not_matter(words in prop::collection::vec("[a-z]{1,9}", 1..6)) {
            let four = Identifier::four();
            let turned: Vec<String> = words.iter().rev().map(|word| word.to_uppercase()).collect();
            prop_assert_eq!(four.identify(&words.join(" ")), four.identify(&turned.join(", ")));
        }
    }
}
