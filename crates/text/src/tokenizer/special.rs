//! Special tokens: padding, start and end of a sentence, the unknown token, and language tags such as `<2tr>`.

use super::normalization::WORD_MARK;
use crate::{Error, Result};

/// The special tokens of a tokeniser, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Padding of short rows in a batch; default: `<pad>`.
    pub pad: String,
    /// Start of a sequence; default: `<s>`.
    pub start: String,
    /// End of a sequence; default: `</s>`.
    pub end: String,
    /// Replaces what has no entry; default: `<unk>`.
    pub unknown: String,
    /// Further tokens that encoding never yields, such as the target language `<2tr>`; default: none.
    pub tags: Vec<String>,
    /// Which of them are put around a text; default: the end token after it.
    pub frame: TextFrame,
}

/// The special tokens around a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextFrame {
    /// The end token after it.
    #[default]
    End,
    /// The start token before it and the end token after it, as in BERT.
    StartAndEnd,
}

impl Default for SpecialTokens {
    fn default() -> Self {
        Self {
            pad: "<pad>".into(),
            start: "<s>".into(),
            end: "</s>".into(),
            unknown: "<unk>".into(),
            tags: Vec::new(),
            frame: TextFrame::End,
        }
    }
}

/// True if no token of text can spell it: words are split at punctuation, so none has punctuation at both ends.
fn is_marked(token: &str) -> bool {
    let mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
    let chars = token.chars();
    mark(chars.clone().next())
        && mark(chars.clone().next_back())
        && chars.clone().count() >= 3
        && !chars.clone().any(|c| c.is_whitespace() || c.is_control() || c == WORD_MARK)
        && !(token.len() == 6 && token.starts_with("<0x"))
}

impl SpecialTokens {
    /// The names of BERT, with the token that hides a word of a masked language model: `[PAD] [CLS] [SEP] [UNK] [MASK]`.
    pub fn bert() -> Self {
        Self {
            pad: "[PAD]".into(),
            start: "[CLS]".into(),
            end: "[SEP]".into(),
            unknown: "[UNK]".into(),
            tags: vec!["[MASK]".into()],
            frame: TextFrame::StartAndEnd,
        }
    }

    /// All special tokens in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.pad, &self.start, &self.end, &self.unknown].into_iter().chain(&self.tags).map(String::as_str)
    }

    /// Rejects tokens that text could spell, and repeated ones.
    pub(crate) fn check(&self) -> Result<()> {
        let all: Vec<&str> = self.all().collect();
        let wrong = |found: String, expected: &str| {
            let (expected, hint) = (expected.into(), "write tags as in <2tr>".into());
            Err(Error::Option { name: "special token", found, expected, hint })
        };
        for (index, token) in all.iter().enumerate() {
            if all[..index].contains(token) {
                return wrong(format!("{token:?} twice"), "each token once");
            }
            if !is_marked(token) {
                return wrong(
                    format!("{token:?}"),
                    "punctuation at both ends, no space inside, and no byte such as <0x41>",
                );
            }
        }
        Ok(())
    }
}
