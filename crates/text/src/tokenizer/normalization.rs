//! Normalisation of text before tokenisation: a Unicode normal form, optional lower case, single spaces.
//!
//! Runs of white space, and of the word mark `▁` that represents a space inside tokens, become one space; the ends are
//! trimmed. [`Normalization::apply`] is the fast implementation used in training; [`Normalization::to_hugging_face`] is
//! the same as steps of `tokenizer.json`, and a property test checks that the two agree.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFC, NFKC, Replace, Sequence, Strip};
use unicode_normalization_alignments::UnicodeNormalization;

/// The mark that represents the space before a word: U+2581.
pub const WORD_MARK: char = '▁';

/// White space and the word mark, listed explicitly so that every regex engine agrees.
const SPACES: &str =
    r"[\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{2581}]+";

/// A Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnicodeForm {
    /// No normalisation.
    None,
    /// Canonical composition: `e` + accent becomes `é`.
    Nfc,
    /// Compatibility composition: NFC, and `ﬁ` → `fi`, full-width `Ａ` → `A`.
    #[default]
    Nfkc,
}

/// Options of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Normalization {
    /// Unicode normal form; default: NFKC.
    pub form: UnicodeForm,
    /// Treatment of capital letters; default: keep.
    pub case: LetterCase,
}

/// Treatment of capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LetterCase {
    /// Keeps capitals.
    #[default]
    Keep,
    /// Converts to lower case, character by character and independent of the language.
    Lower,
}

impl Normalization {
    /// The normalised text.
    ///
    /// ```
    /// use polyhead_text::tokenizer::Normalization;
    /// assert_eq!(Normalization::default().apply("  The\tﬁrst\u{a0} cat "), "The first cat");
    /// ```
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        if text.is_ascii() && self.case == LetterCase::Keep && is_tidy(text) {
            return Cow::Borrowed(text);
        }
        let composed: Cow<str> = match self.form {
            _ if text.is_ascii() => Cow::Borrowed(text),
            UnicodeForm::None => Cow::Borrowed(text),
            UnicodeForm::Nfc => Cow::Owned(text.nfc().map(|(c, _)| c).collect()),
            UnicodeForm::Nfkc => Cow::Owned(text.nfkc().map(|(c, _)| c).collect()),
        };
        let mut out = String::with_capacity(composed.len());
        match self.case {
            LetterCase::Keep => tidy(composed.chars(), &mut out),
            LetterCase::Lower => tidy(composed.chars().flat_map(char::to_lowercase), &mut out),
        }
        Cow::Owned(out)
    }

    /// The same steps for `tokenizer.json`.
    pub(crate) fn to_hugging_face(self) -> Sequence {
        let mut steps = Vec::new();
        match self.form {
            UnicodeForm::None => {}
            UnicodeForm::Nfc => steps.push(NFC.into()),
            UnicodeForm::Nfkc => steps.push(NFKC.into()),
        }
        if self.case == LetterCase::Lower {
            steps.push(Lowercase.into());
        }
        let spaces = Replace::new(ReplacePattern::Regex(SPACES.into()), " ").expect("a valid pattern");
        steps.push(spaces.into());
        steps.push(Strip::new(true, true).into());
        Sequence::new(steps)
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c == WORD_MARK
}

/// True if `tidy` would change nothing; for ASCII text.
fn is_tidy(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_clean = bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ');
    ends_clean
        && !bytes.windows(2).any(|pair| pair == b"  ")
        && !bytes.iter().any(|byte| (b'\t'..=b'\r').contains(byte))
}

fn tidy(chars: impl Iterator<Item = char>, out: &mut String) {
    let mut space_due = false;
    for c in chars {
        if is_space(c) {
            space_due = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut space_due) {
            out.push(' ');
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokenizers::{NormalizedString, Normalizer as _};

    fn both(normalization: Normalization, text: &str) -> (String, String) {
        let mut normalized = NormalizedString::from(text);
        normalization.to_hugging_face().normalize(&mut normalized).unwrap();
        (normalization.apply(text).into_owned(), normalized.get().to_owned())
    }

    const ALL: [Normalization; 4] = [
        Normalization { form: UnicodeForm::None, case: LetterCase::Keep },
        Normalization { form: UnicodeForm::Nfc, case: LetterCase::Lower },
        Normalization { form: UnicodeForm::Nfkc, case: LetterCase::Keep },
        Normalization { form: UnicodeForm::Nfkc, case: LetterCase::Lower },
    ];

    #[test]
    fn both_implementations_agree_on_special_cases() {
        for normalization in ALL {
            for text in
                ["", " ", "\t a\u{85}b\u{3000}", "¨x", "▁a▁▁b ", "İstanbul ΑΣ", "e\u{301} ﬁ Ａ", "a\0b"]
            {
                let (ours, theirs) = both(normalization, text);
                assert_eq!(ours, theirs, "{text:?} under {normalization:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_implementations_agree(text in "\\PC{0,20}|[ \\ta-zé▁\u{a0}\u{301}Ａ.]{0,20}") {
            for normalization in ALL {
                let (ours, theirs) = both(normalization, &text);
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
