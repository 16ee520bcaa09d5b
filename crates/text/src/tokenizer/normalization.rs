//! What happens to a text before it is cut into pieces: a Unicode normal form, lower case if asked, tidy spaces.
//!
//! Runs of white space, and of the word mark `▁` that stands for a space inside pieces, become one space; the ends are
//! trimmed. [`Normalization::apply`] is the fast twin used in training; [`Normalization::to_hugging_face`] is the same
//! as steps of `tokenizer.json`, and a property test holds the two equal.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFC, NFKC, Replace, Sequence, Strip};
use unicode_normalization_alignments::UnicodeNormalization;

/// The mark that stands for the space before a word: U+2581.
pub const WORD_MARK: char = '▁';

/// White space and the word mark, spelled out so that every regex engine agrees.
const SPACES: &str =
    r"[\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{2581}]+";

/// A Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Characters stay as they are.
    None,
    /// Composed letters: `e` + accent becomes `é`.
    Nfc,
    /// NFC, and compatibility characters become plain: `ﬁ` → `fi`, full-width `Ａ` → `A`.
    #[default]
    Nfkc,
}

/// How text is normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Normalization {
    /// The Unicode normal form; NFKC unless said otherwise.
    pub form: Form,
    /// What happens to capitals; kept unless said otherwise.
    pub case: Case,
}

/// What happens to capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// They stay.
    #[default]
    Keep,
    /// They become small letters, one character at a time and without regard to language.
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
        if text.is_ascii() && self.case == Case::Keep && is_tidy(text) {
            return Cow::Borrowed(text);
        }
        let composed: Cow<str> = match self.form {
            _ if text.is_ascii() => Cow::Borrowed(text),
            Form::None => Cow::Borrowed(text),
            Form::Nfc => Cow::Owned(text.nfc().map(|(c, _)| c).collect()),
            Form::Nfkc => Cow::Owned(text.nfkc().map(|(c, _)| c).collect()),
        };
        let mut out = String::with_capacity(composed.len());
        match self.case {
            Case::Keep => tidy(composed.chars(), &mut out),
            Case::Lower => tidy(composed.chars().flat_map(char::to_lowercase), &mut out),
        }
        Cow::Owned(out)
    }

    /// The same steps for `tokenizer.json`.
    pub(crate) fn to_hugging_face(self) -> Sequence {
        let mut steps = Vec::new();
        match self.form {
            Form::None => {}
            Form::Nfc => steps.push(NFC.into()),
            Form::Nfkc => steps.push(NFKC.into()),
        }
        if self.case == Case::Lower {
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

/// True where `tidy` would change nothing; for ASCII text.
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
        Normalization { form: Form::None, case: Case::Keep },
        Normalization { form: Form::Nfc, case: Case::Lower },
        Normalization { form: Form::Nfkc, case: Case::Keep },
        Normalization { form: Form::Nfkc, case: Case::Lower },
    ];

    #[test]
    fn the_twin_agrees_on_nasty_text() {
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
        fn the_twin_agrees(text in "\\PC{0,20}|[ \\ta-zé▁\u{a0}\u{301}Ａ.]{0,20}") {
            for normalization in ALL {
                let (ours, theirs) = both(normalization, &text);
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
