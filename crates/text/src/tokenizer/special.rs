//! Tokens that are no text: padding, sentence ends, the unknown, and language tags such as `<2tr>`.

use crate::{Error, Result};

/// The special tokens of a tokeniser, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Fills up short rows of a batch; `<pad>`.
    pub pad: String,
    /// Begins a sequence; `<s>`.
    pub start: String,
    /// Ends a sequence; `</s>`.
    pub end: String,
    /// Stands for what has no entry; `<unk>`.
    pub unknown: String,
    /// More tokens that the text never yields by itself, such as the target language `<2tr>`; none.
    pub tags: Vec<String>,
}

impl Default for SpecialTokens {
    fn default() -> Self {
        Self {
            pad: "<pad>".into(),
            start: "<s>".into(),
            end: "</s>".into(),
            unknown: "<unk>".into(),
            tags: Vec::new(),
        }
    }
}

impl SpecialTokens {
    /// All of them in id order.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.pad, &self.start, &self.end, &self.unknown].into_iter().chain(&self.tags).map(String::as_str)
    }

    /// Refuses empty and repeated tokens.
    pub(crate) fn check(&self) -> Result<()> {
        let all: Vec<&str> = self.all().collect();
        let wrong = all.iter().enumerate().find(|(i, token)| token.is_empty() || all[..*i].contains(token));
        match wrong {
            None => Ok(()),
            Some((_, token)) => Err(Error::Option {
                name: "special tokens",
                found: format!("{token:?} empty or given twice"),
                expected: "different tokens".into(),
                hint: "tags are written like <2tr>".into(),
            }),
        }
    }
}
