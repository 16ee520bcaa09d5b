//! Words that a vocabulary lacks, with ids of their own sentence: vocab_size + k for the k-th different one of a source (See,
//! Liu & Manning 2017, section 2.2). A model that copies can write them.
//!
//! Whole words and single characters have such ids. Subwords have not: a word that a subword vocabulary lacks is cut into
//! known subwords, and another context may cut it elsewhere, so the word of one side is not a token of the other.

use std::ops::Range;

use super::normalization::WORD_MARK;
use super::{Encoding, Tokenizer};
use crate::{Error, Result};

/// The words of a source that the vocabulary lacks, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnknownWords {
    words: Vec<UnknownWord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct UnknownWord {
    /// Its normalised spelling, by which a word of a target is the same word.
    key: String,
    /// Its token: the spelling of the source, with the mark of a word that begins after a space.
    token: String,
}

impl Tokenizer {
    /// Checks that a word is one token wherever it stands, so that it can be copied.
    ///
    /// # Errors
    /// If the tokens are subwords.
    pub fn check_copying(&self) -> Result<()> {
        match self {
            Self::HuggingFace(tokenizer) if tokenizer.has_whole_tokens() => Ok(()),
            other => Err(Error::Option {
                name: "copying",
                found: format!("a tokeniser of subwords ({})", other.describe()),
                expected: "one of words or characters: a word that the vocabulary lacks is cut into subwords that it has, and \
                           source and target may cut it differently, so it cannot be copied as one token"
                    .into(),
                hint: "set tokenizer.kind = \"word\"".into(),
            }),
        }
    }

    /// Gives the words of a source that the vocabulary lacks ids from `vocab_size` on.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn extend_source(&self, text: &str, encoding: &mut Encoding) -> Result<UnknownWords> {
        let mut found = UnknownWords::default();
        for index in self.unknown(encoding) {
            let word = self.unknown_word(text, &encoding.offsets[index])?;
            let known = found.words.iter().position(|other| other.key == word.key);
            let at = known.unwrap_or(found.words.len());
            encoding.ids[index] = (self.vocab_size() + at) as u32;
            encoding.pieces[index].clone_from(&word.token);
            if known.is_none() {
                found.words.push(word);
            }
        }
        Ok(found)
    }

    /// Gives the words of a target that the vocabulary lacks the ids that they have in the source; others stay unknown.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn extend_target(&self, text: &str, encoding: &mut Encoding, source: &UnknownWords) -> Result<()> {
        for index in self.unknown(encoding) {
            let word = self.unknown_word(text, &encoding.offsets[index])?;
            if let Some(at) = source.words.iter().position(|other| other.key == word.key) {
                encoding.ids[index] = (self.vocab_size() + at) as u32;
                encoding.pieces[index].clone_from(&word.token);
            }
        }
        Ok(())
    }

    /// The text of `ids`, of which those from `vocab_size` on are words of the source.
    ///
    /// # Errors
    /// If an id is neither in the vocabulary nor in the source.
    pub fn decode_extended(&self, ids: &[u32], source: &UnknownWords) -> Result<String> {
        match self {
            Self::HuggingFace(tokenizer) if ids.iter().any(|id| *id as usize >= self.vocab_size()) => {
                tokenizer.decode_with(ids, |id| source.token(id, self.vocab_size()))
            }
            _ => self.decode(ids),
        }
    }

    /// The words of an encoding that [`Self::extend_source`] made.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn unknown_words<'a>(
        &self,
        tokens: impl IntoIterator<Item = (u32, &'a str)>,
    ) -> Result<UnknownWords> {
        let mut found = UnknownWords::default();
        for (id, token) in tokens {
            if id as usize == self.vocab_size() + found.len() {
                let (mark, spelling) = match token.strip_prefix(WORD_MARK) {
                    Some(spelling) => (WORD_MARK.to_string(), spelling),
                    None => (String::new(), token),
                };
                let key = match self {
                    Self::HuggingFace(tokenizer) => tokenizer.normalize(spelling)?,
                    _ => spelling.to_owned(),
                };
                found.words.push(UnknownWord { key: mark + key.trim(), token: token.to_owned() });
            }
        }
        Ok(found)
    }

    fn unknown(&self, encoding: &Encoding) -> Vec<usize> {
        let unknown = self.unknown_id();
        (0..encoding.len()).filter(|&index| Some(encoding.ids[index]) == unknown).collect()
    }

    fn unknown_word(&self, text: &str, span: &Range<usize>) -> Result<UnknownWord> {
        let spelling = text[span.clone()].trim();
        let Self::HuggingFace(tokenizer) = self else {
            return Ok(UnknownWord { key: spelling.to_owned(), token: spelling.to_owned() });
        };
        let begins = span.start == 0
            || text[span.clone()].starts_with(char::is_whitespace)
            || text[..span.start].ends_with(char::is_whitespace);
        let mark = if begins && tokenizer.marks_words() { WORD_MARK.to_string() } else { String::new() };
        let key = tokenizer.normalize(spelling)?;
        Ok(UnknownWord { key: mark.clone() + key.trim(), token: mark + spelling })
    }
}

impl UnknownWords {
    /// The token of an id, in the spelling of the source.
    pub fn token(&self, id: u32, vocab_size: usize) -> Option<&str> {
        Some(&self.words.get((id as usize).checked_sub(vocab_size)?)?.token)
    }

    /// Number of different words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True if the vocabulary has every word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{TokenizerKind, TrainOptions, WordSplit, train};

    fn tokenizer(kind: TokenizerKind, word_split: WordSplit) -> Tokenizer {
        let lines = ["the man met the woman .", "( the woman , the man )"].map(|line| Ok(line.to_owned()));
        let options = TrainOptions {
            kind,
            word_split,
            vocab_size: (kind == TokenizerKind::Bpe).then_some(24),
            min_frequency: 1,
            ..TrainOptions::default()
        };
        Tokenizer::HuggingFace(Box::new(train(lines.into_iter(), &options, &mut |_| {}).unwrap()))
    }

    #[test]
    fn a_word_has_one_id_in_its_source_and_target_and_keeps_its_spelling() {
        let tokenizer = tokenizer(TokenizerKind::Word, WordSplit::Punctuation);
        let size = tokenizer.vocab_size() as u32;
        let source = "the Zorblax met Qu\u{fb01}n , the Zorblax .";
        let mut encoding = tokenizer.encode(source).unwrap();
        let words = tokenizer.extend_source(source, &mut encoding).unwrap();
        let unknown: Vec<u32> = encoding.ids.iter().copied().filter(|id| *id >= size).collect();
        assert_eq!((unknown, words.len()), (vec![size, size + 1, size], 2));
        let tokens = encoding.ids.iter().copied().zip(encoding.pieces.iter().map(String::as_str));
        assert_eq!(tokenizer.unknown_words(tokens).unwrap(), words);
        // The ligature is normalised in comparisons; the spelling of the source is written.
        let target = "Qufin met ( Zorblax and Other )";
        let mut given = tokenizer.encode(target).unwrap();
        tokenizer.extend_target(target, &mut given, &words).unwrap();
        assert_eq!(given.ids.iter().filter(|id| **id >= size).collect::<Vec<_>>(), [&(size + 1), &size]);
        assert!(given.ids.contains(&tokenizer.unknown_id().unwrap()));
        let ids: Vec<u32> =
            given.ids.iter().copied().filter(|id| Some(*id) != tokenizer.unknown_id()).collect();
        assert_eq!(tokenizer.decode_extended(&ids, &words).unwrap(), "Qu\u{fb01}n met ( Zorblax )");
        assert!(tokenizer.decode_extended(&[size + 2], &words).is_err());
        assert!(tokenizer.decode_extended(&[size], &UnknownWords::default()).is_err());
    }

    #[test]
    fn words_at_spaces_are_joined_by_spaces_and_known_text_decodes_as_before() {
        let tokenizer = tokenizer(TokenizerKind::Word, WordSplit::Whitespace);
        let source = "the Zorblax met";
        let mut encoding = tokenizer.encode(source).unwrap();
        let words = tokenizer.extend_source(source, &mut encoding).unwrap();
        assert_eq!(tokenizer.decode_extended(&encoding.ids, &words).unwrap(), source);
        assert_eq!(encoding.pieces, ["the", "Zorblax", "met"]);
        let known = tokenizer.encode("the man").unwrap().ids;
        assert_eq!(tokenizer.decode_extended(&known, &words).unwrap(), tokenizer.decode(&known).unwrap());
    }

    #[test]
    fn characters_can_be_copied_and_subwords_cannot() {
        let characters = tokenizer(TokenizerKind::Character, WordSplit::Whole);
        assert!(characters.check_copying().is_ok());
        let mut encoding = characters.encode("the ñ").unwrap();
        let words = characters.extend_source("the ñ", &mut encoding).unwrap();
        assert_eq!(characters.decode_extended(&encoding.ids, &words).unwrap(), "the ñ");
        let error = tokenizer(TokenizerKind::Bpe, WordSplit::Whole).check_copying().unwrap_err();
        assert!(error.to_string().contains("source and target may cut it differently"), "{error}");
    }
}
