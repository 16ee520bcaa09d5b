//! Tokens with their places in a text, and the words they belong to.

use std::ops::Range;

use polyhead_text::tokenizer::Encoding;
use polyhead_translate::Engine;
use polyhead_translate::words::{word_at, words};

use crate::Result;
use crate::words::Grouping;

/// A piece that the model read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// How the vocabulary spells it.
    pub piece: String,
    /// The bytes of the text that it stands for; none for an end, a start or the tag of a language.
    pub span: Range<usize>,
    /// The word of the text that it ends in.
    pub word: Option<usize>,
}

/// A sequence that a model read or wrote: a text with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// What the model's sites call it, such as `source`.
    pub name: &'static str,
    /// The text.
    pub text: String,
    /// Its tokens, the end included.
    pub tokens: Vec<Token>,
    /// Where its words stand, in bytes.
    pub words: Vec<Range<usize>>,
    /// Of a sequence that was written: what position 0 read; position t reads token t − 1 and writes token t.
    pub start: Option<Token>,
    word_of: Vec<Option<usize>>,
}

impl Side {
    /// A text that was cut into pieces.
    pub(super) fn new(name: &'static str, text: &str, encoding: Encoding) -> Self {
        let words = words(text);
        let Encoding { ids, pieces, offsets, .. } = encoding;
        let tokens: Vec<Token> = ids
            .into_iter()
            .zip(pieces)
            .zip(offsets)
            .map(|((id, piece), span)| Token { id, piece, word: word_at(&words, &span), span })
            .collect();
        let word_of = tokens.iter().map(|token| token.word).collect();
        Self { name, text: text.to_owned(), tokens, words, start: None, word_of }
    }

    /// What a model wrote: the text of its ids, and the part of it that each token brought.
    pub(super) fn written(name: &'static str, engine: &Engine, ids: &[u32]) -> Result<Self> {
        let text = engine.decode(ids)?;
        let same = engine.encode_target(&text)?;
        if same.ids == ids {
            return Ok(Self::new(name, &text, same));
        }
        // The same text can be cut in other ways. Each token brings what the text of all up to it has more.
        let mut offsets = Vec::with_capacity(ids.len());
        let mut end = 0;
        for count in 1..=ids.len() {
            let so_far = shared(&text, &engine.decode(&ids[..count])?).max(end);
            offsets.push(end..so_far);
            end = so_far;
        }
        let pieces = ids.iter().map(|&id| engine.target_piece(id)).collect();
        Ok(Self::new(name, &text, Encoding { ids: ids.to_vec(), pieces, offsets }))
    }

    /// The ids of its tokens.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Which word each token belongs to.
    pub fn grouping(&self) -> Grouping<'_> {
        Grouping { word_of: &self.word_of, n_words: self.words.len() }
    }

    /// What people may call a token: the text that it stands for, `·` before letters that go on with a word; else its piece.
    pub fn label(&self, token: usize) -> String {
        let Token { piece, span, word, .. } = &self.tokens[token];
        let text = self.text.get(span.clone()).unwrap_or_default().trim();
        if text.is_empty() {
            return piece.clone();
        }
        let before = token.checked_sub(1).and_then(|before| self.tokens[before].word);
        // Marks are seen to go on by themselves.
        let goes_on = word.is_some() && before == *word && text.starts_with(char::is_alphanumeric);
        if goes_on { format!("·{text}") } else { text.to_owned() }
    }

    /// All labels.
    pub fn labels(&self) -> Vec<String> {
        (0..self.tokens.len()).map(|token| self.label(token)).collect()
    }

    /// Labels of what its positions read: the start, then all tokens but the last; of a sequence that was only read, its tokens.
    pub fn read_labels(&self) -> Vec<String> {
        let labels = self.labels();
        let Some(start) = &self.start else { return labels };
        let length = labels.len();
        [start.piece.clone()].into_iter().chain(labels).take(length).collect()
    }

    /// The word that each position read belongs to.
    pub fn read_words(&self) -> Vec<Option<usize>> {
        let shift = self.start.as_ref().map(|_| None);
        shift.into_iter().chain(self.word_of.iter().copied()).collect()
    }

    /// The words themselves.
    pub fn word_labels(&self) -> Vec<String> {
        self.words.iter().map(|word| self.text[word.clone()].to_owned()).collect()
    }
}

/// Bytes that both texts begin with, whole characters.
fn shared(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(parts: &[(&str, Range<usize>)]) -> Encoding {
        let (pieces, offsets) = parts.iter().map(|(piece, span)| ((*piece).to_owned(), span.clone())).unzip();
        Encoding { ids: (0..parts.len() as u32).collect(), pieces, offsets }
    }

    #[test]
    fn labels_show_what_goes_on_with_a_word() {
        let parts = [(">>tur<<", 0..0), ("▁fare", 0..4), ("yi", 4..6), ("▁yedi", 6..11), ("</s>", 11..11)];
        let side = Side::new("target", "fareyi yedi", encoding(&parts));
        assert_eq!(side.labels(), [">>tur<<", "fare", "·yi", "yedi", "</s>"]);
        assert_eq!(side.word_labels(), ["fareyi", "yedi"]);
        assert_eq!(side.grouping().word_of, [None, Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn a_shared_beginning_ends_between_characters() {
        assert_eq!(shared("aşb", "aşc"), 3);
        assert_eq!(shared("aş", "aç"), 1);
        assert_eq!(shared("", "x"), 0);
    }
}
