//! Text to ids and back.
//!
//! Tokenisers are trained here ([`train()`]) and kept in Hugging Face's `tokenizer.json` form ([`HuggingFace`]).
//! Foreign ones are read as they are: SentencePiece files ([`sentencepiece`]), OPUS-MT folders, and subword-nmt codes
//! with a fairseq dictionary ([`subword_nmt`], [`fairseq_dictionary`]). [`Tokenizer`] is any of them.

mod any;
mod dropout;
pub mod fairseq_dictionary;
mod guard;
mod hugging_face;
mod normalization;
pub mod sentencepiece;
mod special;
pub mod subword_nmt;
mod train;
mod words;

pub use any::Tokenizer;
pub use dropout::Dropout;
pub use hugging_face::HuggingFace;
pub use normalization::{Case, Form, Normalization, WORD_MARK};
pub use special::SpecialTokens;
pub use train::{Kind, Progress, TrainOptions, Unknown, train};
pub use words::Split;

/// What a text became: one id, one piece and one span of the original text per token.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Encoding {
    /// Ids in the vocabulary.
    pub ids: Vec<u32>,
    /// The pieces as the vocabulary spells them.
    pub pieces: Vec<String>,
    /// Byte ranges of the original text; empty where a piece stands for no text (an inserted token).
    pub offsets: Vec<std::ops::Range<usize>>,
}

impl Encoding {
    /// Appends one token.
    pub(crate) fn push(&mut self, id: u32, piece: String, offsets: std::ops::Range<usize>) {
        self.ids.push(id);
        self.pieces.push(piece);
        self.offsets.push(offsets);
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True without tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
