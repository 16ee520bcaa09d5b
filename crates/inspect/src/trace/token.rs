//! Tokens with their positions in a text and their words.

use std::ops::Range;

use polyhead_text::tokenizer::{Encoding, UnknownWords};
use polyhead_translate::Engine;
use polyhead_translate::words::{word_at, words};

use crate::Result;
use crate::words::WordGrouping;

/// A token that the model read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Vocabulary entry.
    pub piece: String,
    /// Byte range in the text; empty for end, start and language tag tokens.
    pub span: Range<usize>,
    /// Index of the word that it ends in.
    pub word: Option<usize>,
}

/// A sequence that the model read or wrote: a text with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSide {
    /// Name in the model's sites, such as `source`.
    pub name: &'static str,
    /// The text.
    pub text: String,
    /// Tokens, the end token included.
    pub tokens: Vec<Token>,
    /// Byte ranges of the words.
    pub words: Vec<Range<usize>>,
    /// Start token of a decoder sequence: the input of position 0. Position t reads token t − 1 and predicts token t.
    pub start: Option<Token>,
    word_of: Vec<Option<usize>>,
}

impl TraceSide {
    /// An encoded text.
    pub(crate) fn new(name: &'static str, text: &str, encoding: Encoding) -> Self {
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

    /// The texts of a source of several, with tabs between, as sides of their own; each ends with `end_id`.
    pub(super) fn divided(&self, names: &[&'static str], end_id: u32) -> Vec<Self> {
        let (mut start, mut tokens) = (0, self.tokens.as_slice());
        let part = |(&name, text): (&&'static str, &str)| {
            let end = tokens.iter().position(|token| token.id == end_id).map_or(tokens.len(), |end| end + 1);
            let (own, rest) = tokens.split_at(end);
            let span = |token: &Token| {
                let at = |byte: usize| byte.saturating_sub(start).min(text.len());
                at(token.span.start)..at(token.span.end)
            };
            let encoding = Encoding {
                ids: own.iter().map(|token| token.id).collect(),
                pieces: own.iter().map(|token| token.piece.clone()).collect(),
                offsets: own.iter().map(span).collect(),
            };
            (start, tokens) = (start + text.len() + 1, rest);
            Self::new(name, text, encoding)
        };
        names.iter().zip(self.text.split('\t')).map(part).collect()
    }

    /// A side with a token for each of several sequences, which is a word of its own.
    pub(super) fn of_names(name: &'static str, names: &[&'static str]) -> Self {
        let mut encoding = Encoding::default();
        for (index, own) in names.iter().enumerate() {
            let start = encoding.offsets.last().map_or(0, |span| span.end + 1);
            encoding.ids.push(index as u32);
            encoding.pieces.push((*own).to_owned());
            encoding.offsets.push(start..start + own.len());
        }
        Self::new(name, &names.join(" "), encoding)
    }

    /// A decoded sequence: the text of its ids, and the byte range of each token.
    pub(super) fn written(
        name: &'static str,
        (engine, words): (&Engine, &UnknownWords),
        ids: &[u32],
    ) -> Result<Self> {
        let text = engine.decode_of(ids, words)?;
        let same = engine.encode_target_of(&text, words)?;
        if same.ids == ids {
            return Ok(Self::new(name, &text, same));
        }
        // Another tokenisation of the same text: a token's range is what it adds to the decoded prefix.
        let mut offsets = Vec::with_capacity(ids.len());
        let mut end = 0;
        for count in 1..=ids.len() {
            let so_far = common_prefix(&text, &engine.decode_of(&ids[..count], words)?).max(end);
            offsets.push(end..so_far);
            end = so_far;
        }
        let pieces = ids.iter().map(|&id| piece(engine, words, id)).collect();
        Ok(Self::new(name, &text, Encoding { ids: ids.to_vec(), pieces, offsets }))
    }

    /// Token ids.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Word of each token.
    pub fn grouping(&self) -> WordGrouping<'_> {
        WordGrouping { word_of: &self.word_of, n_words: self.words.len() }
    }

    /// Display label of a token: its text, with `·` before letters that continue a word; or its vocabulary entry if it has none.
    /// A byte token has the character that its byte belongs to, with its place in it (`漢 1/3`).
    pub fn label(&self, token: usize) -> String {
        let Token { piece, span, word, .. } = &self.tokens[token];
        if byte_of(piece).is_some() {
            return self.byte_label(token).unwrap_or_else(|| piece.clone());
        }
        let text = self.text.get(span.clone()).unwrap_or_default().trim();
        if text.is_empty() || byte_of(piece).is_some() {
            return piece.clone();
        }
        let before = token.checked_sub(1).and_then(|before| self.tokens[before].word);
        // Punctuation needs no mark.
        let continues = word.is_some() && before == *word && text.starts_with(char::is_alphanumeric);
        if continues { format!("·{text}") } else { text.to_owned() }
    }

    /// The character of a byte token; none for other tokens, and for bytes that are no UTF-8.
    fn byte_label(&self, token: usize) -> Option<String> {
        let byte = |index: usize| self.tokens.get(index).and_then(|own| byte_of(&own.piece));
        byte(token)?;
        // The bytes around it that belong to one character: a first byte and those that continue it.
        let continues = |index: usize| byte(index).is_some_and(|byte| byte & 0xc0 == 0x80);
        let mut first = token;
        while continues(first) {
            first = first.checked_sub(1)?;
        }
        let mut end = first + 1;
        while continues(end) && end - first < 4 {
            end += 1;
        }
        let bytes: Vec<u8> = (first..end).filter_map(byte).collect();
        let character = std::str::from_utf8(&bytes).ok().filter(|_| token < end)?;
        Some(match bytes.len() {
            1 => character.to_owned(),
            length => format!("{character} {}/{length}", token - first + 1),
        })
    }

    /// All labels.
    pub fn labels(&self) -> Vec<String> {
        (0..self.tokens.len()).map(|token| self.label(token)).collect()
    }

    /// Labels of the input tokens of its positions: for a decoder sequence the start token, then all tokens but the last; else its
    /// tokens.
    pub fn read_labels(&self) -> Vec<String> {
        let labels = self.labels();
        let Some(start) = &self.start else { return labels };
        let length = labels.len();
        [start.piece.clone()].into_iter().chain(labels).take(length).collect()
    }

    /// Word of the input token of each position.
    pub fn read_words(&self) -> Vec<Option<usize>> {
        let shift = self.start.as_ref().map(|_| None);
        shift.into_iter().chain(self.word_of.iter().copied()).collect()
    }

    /// Texts of the words.
    pub fn word_labels(&self) -> Vec<String> {
        self.words.iter().map(|word| self.text[word.clone()].to_owned()).collect()
    }
}

/// The entry of an id in the target vocabulary, or the word of the source that it is.
pub(super) fn piece(engine: &Engine, words: &UnknownWords, id: u32) -> String {
    let own = words.token(id, engine.model().vocab_sizes()[1]);
    own.map_or_else(|| engine.target_piece(id), str::to_owned)
}

/// The byte of a byte token, such as `<0xE2>`.
fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>').filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// Length in bytes of the common prefix, in whole characters.
fn common_prefix(a: &str, b: &str) -> usize {
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
    fn labels_mark_tokens_that_continue_a_word() {
        let parts = [(">>tur<<", 0..0), ("▁fare", 0..4), ("yi", 4..6), ("▁yedi", 6..11), ("</s>", 11..11)];
        let side = TraceSide::new("target", "fareyi yedi", encoding(&parts));
        assert_eq!(side.labels(), [">>tur<<", "fare", "·yi", "yedi", "</s>"]);
        assert_eq!(side.word_labels(), ["fareyi", "yedi"]);
        assert_eq!(side.grouping().word_of, [None, Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn the_texts_of_a_source_become_sides() {
        let parts = [
            ("▁der", 0..3),
            ("▁Hund", 3..8),
            ("</s>", 8..8),
            ("▁le", 9..11),
            ("▁chi", 11..15),
            ("en", 15..17),
            ("</s>", 17..17),
        ];
        let mut encoding = encoding(&parts);
        encoding.ids = vec![5, 6, 2, 7, 8, 9, 2];
        let side = TraceSide::new("source", "der Hund\tle chien", encoding);
        let [first, second] = &side.divided(&["source", "source_2"], 2)[..] else { panic!("two") };
        assert_eq!(
            (first.text.as_str(), first.labels()),
            ("der Hund", ["der", "Hund", "</s>"].map(str::to_owned).into())
        );
        assert_eq!(
            (second.text.as_str(), second.word_labels()),
            ("le chien", ["le", "chien"].map(str::to_owned).into())
        );
        assert_eq!((second.ids(), second.tokens[2].span.clone()), (vec![7, 8, 9, 2], 6..8));
        // A missing source has its end token alone.
        let missing =
            Encoding { ids: vec![5, 2, 2], pieces: vec![String::new(); 3], offsets: vec![0..3, 3..3, 4..4] };
        let sides = TraceSide::new("source", "der\t", missing).divided(&["source", "source_2"], 2);
        assert_eq!(sides.iter().map(|side| side.tokens.len()).collect::<Vec<_>>(), [2, 1]);
        let names = TraceSide::of_names("sources", &["source", "source_2"]);
        assert_eq!(
            (names.labels(), names.words.len()),
            (vec!["source".to_owned(), "source_2".to_owned()], 2)
        );
    }

    #[test]
    fn byte_tokens_show_their_character() {
        let parts = [
            ("▁a", 0..1),
            ("<0xE6>", 1..2),
            ("<0xBC>", 2..3),
            ("<0xA2>", 3..4),
            ("<0x0A>", 4..5),
            ("<0xC3>", 5..6),
            ("b", 6..7),
            ("<0xA2>", 7..7),
        ];
        let side = TraceSide::new("source", "a漢\n?b", encoding(&parts));
        let labels = side.labels();
        assert_eq!(labels, ["a", "漢 1/3", "漢 2/3", "漢 3/3", "\n", "<0xC3>", "·b", "<0xA2>"]);
        assert_eq!([byte_of("<0x4>"), byte_of("<0xG0>"), byte_of("x")], [None; 3]);
    }

    #[test]
    fn a_common_prefix_ends_between_characters() {
        assert_eq!(common_prefix("aşb", "aşc"), 3);
        assert_eq!(common_prefix("aş", "aç"), 1);
        assert_eq!(common_prefix("", "x"), 0);
    }
}
