//! Tokenisers: text to ids and back.
//!
//! Tokenisers are trained here ([`train()`]) and stored in Hugging Face's `tokenizer.json` format ([`HuggingFace`]).
//! Those of other programs are read directly: SentencePiece files ([`sentencepiece`]), OPUS-MT folders, and subword-nmt
//! codes with a fairseq dictionary ([`subword_nmt`], [`fairseq_dictionary`]), GPT-2's two files ([`byte_level`]), BERT's `vocab.txt` ([`wordpiece`]). [`Tokenizer`] is any
//! of them; [`TextStream`] is the text of tokens as they come.

mod any;
pub mod byte_level;
mod copying;
mod dropout;
pub mod fairseq_dictionary;
mod guard;
mod hugging_face;
mod normalization;
pub mod sentencepiece;
mod special;
mod stream;
pub mod subword_nmt;
mod template;
mod token_bytes;
mod train;
mod word_tokens;
pub mod wordpiece;
mod words;

pub use any::Tokenizer;
pub use copying::UnknownWords;
pub use dropout::BpeDropout;
pub use hugging_face::{HuggingFace, PairEncoding};
pub use normalization::{LetterCase, Normalization, UnicodeForm, WORD_MARK};
pub use special::{SpecialTokens, TextFrame};
pub use stream::TextStream;
pub use train::{TokenizerKind, TrainOptions, TrainProgress, UnknownCharacters, train};
pub use words::WordSplit;

/// Encoded text: an id, a token and a span of the original text for each position.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Encoding {
    /// Ids in the vocabulary.
    pub ids: Vec<u32>,
    /// Tokens as spelled in the vocabulary.
    pub pieces: Vec<String>,
    /// Byte ranges of the original text; empty for a token that covers no text (an inserted token).
    pub offsets: Vec<std::ops::Range<usize>>,
}

impl Encoding {
    /// Appends one token.
    pub(crate) fn push(&mut self, id: u32, piece: String, offsets: std::ops::Range<usize>) {
        self.ids.push(id);
        self.pieces.push(piece);
        self.offsets.push(offsets);
    }

    /// Keeps the tokens in `range` alone.
    pub fn keep(&mut self, range: std::ops::Range<usize>) {
        self.remove(range.end..self.len());
        self.remove(0..range.start);
    }

    /// Removes the tokens in `range`.
    pub fn remove(&mut self, range: std::ops::Range<usize>) {
        self.ids.drain(range.clone());
        self.pieces.drain(range.clone());
        self.offsets.drain(range);
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
