//! Pre-tokenisation: normalised text into words, inside which tokens are found.
//!
//! [`WordSplit::each_word`] is the fast implementation used in training; [`WordSplit::to_hugging_face`] is the same as
//! the pre-tokeniser of `tokenizer.json`, and a property test checks that the two agree.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use unicode_categories::UnicodeCategories;

use super::normalization::WORD_MARK;

/// Word boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WordSplit {
    /// At spaces and around every punctuation mark; a word after a space begins with `▁`, so that decoding is lossless.
    Punctuation,
    /// At spaces and around every punctuation mark, without a mark of the space, as in BERT: a word has the same tokens before a
    /// space and before a full stop, and decoding does not know the spaces.
    Words,
    /// At spaces only, for tokenised text; decoding joins with spaces.
    Whitespace,
    /// None: spaces become `▁` and the text is one word.
    Whole,
}

impl WordSplit {
    /// Calls `word` with each word of the normalised `text`.
    pub(crate) fn each_word(self, text: &str, mut word: impl FnMut(&str)) {
        match self {
            Self::Whitespace => text.split(' ').filter(|part| !part.is_empty()).for_each(word),
            Self::Words => {
                let parts = text.split(' ').filter(|part| !part.is_empty());
                parts.for_each(|part| isolate_punctuation(part, &mut word));
            }
            Self::Whole if text.is_empty() => {}
            Self::Whole => word(&text.replace(' ', "▁")),
            Self::Punctuation => {
                let mut buffer = String::new();
                for part in text.split(' ').filter(|part| !part.is_empty()) {
                    buffer.clear();
                    buffer.push(WORD_MARK);
                    buffer.push_str(part);
                    isolate_punctuation(&buffer, &mut word);
                }
            }
        }
    }

    /// The pre-tokeniser of `tokenizer.json`.
    pub(crate) fn to_hugging_face(self) -> PreTokenizerWrapper {
        match self {
            Self::Whitespace => WhitespaceSplit.into(),
            Self::Words => Sequence::new(vec![WhitespaceSplit.into(), Punctuation::default().into()]).into(),
            Self::Whole => Metaspace::new(WORD_MARK, PrependScheme::Never, false).into(),
            Self::Punctuation => Sequence::new(vec![
                Metaspace::new(WORD_MARK, PrependScheme::Always, true).into(),
                Punctuation::default().into(),
            ])
            .into(),
        }
    }
}

fn isolate_punctuation(text: &str, word: &mut impl FnMut(&str)) {
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|&(_, c)| is_punctuation(c)) {
        if start < at {
            word(&text[start..at]);
        }
        start = at + c.len_utf8();
        word(&text[at..start]);
    }
    if start < text.len() {
        word(&text[start..]);
    }
}

/// True for punctuation in the sense of `tokenizers`: ASCII punctuation and symbols, and Unicode's P categories.
fn is_punctuation(c: char) -> bool {
    static BASIC_PLANE: OnceLock<Vec<bool>> = OnceLock::new();
    let table = BASIC_PLANE.get_or_init(|| {
        (0..=0xffff).map(|code| char::from_u32(code).is_some_and(UnicodeCategories::is_punctuation)).collect()
    });
    c.is_ascii_punctuation() || table.get(c as usize).copied().unwrap_or_else(|| c.is_punctuation())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _};

    fn both(split: WordSplit, text: &str) -> (Vec<String>, Vec<String>) {
        let mut ours = Vec::new();
        split.each_word(text, |word| ours.push(word.to_owned()));
        let mut theirs = PreTokenizedString::from(text);
        split.to_hugging_face().pre_tokenize(&mut theirs).unwrap();
        let theirs = theirs.get_splits(OffsetReferential::Original, OffsetType::Byte);
        (ours, theirs.into_iter().map(|(word, _, _)| word.to_owned()).collect())
    }

    #[test]
    fn words_are_marked_and_punctuation_is_isolated() {
        let (ours, _) = both(WordSplit::Punctuation, "The cat (it) ate.");
        assert_eq!(ours, ["▁The", "▁cat", "▁", "(", "it", ")", "▁ate", "."]);
    }

    proptest! {
        #[test]
        fn both_implementations_agree(text in "\\PC{0,20}|[ a-z.,'«»—é𐄀-𐄂]{0,20}") {
            let text = crate::tokenizer::Normalization::default().apply(&text).into_owned();
            for split in [WordSplit::Punctuation, WordSplit::Words, WordSplit::Whitespace, WordSplit::Whole] {
                let (ours, theirs) = both(split, &text);
                prop_assert_eq!(ours, theirs, "{:?}", split);
            }
        }
    }
}
