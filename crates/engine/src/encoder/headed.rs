//! An encoder with the head that its folder has, for commands that work with any of them.

use std::path::Path;

use polyhead_models::encoder::EncoderHead;

use super::fill::Filler;
use super::tag::Tagger;
use super::{LongTexts, TextEncoder, TextInput};
use crate::Result;
use crate::classify::Classifier;
use crate::load::LoadOptions;

/// An encoder and what its head computes.
#[derive(Debug)]
pub enum HeadedEncoder {
    /// No head: vectors of texts and tokens.
    States(TextEncoder),
    /// Classes of texts.
    Classes(Classifier),
    /// Classes of tokens.
    Tags(Tagger),
    /// Words in place of masks.
    Words(Filler),
}

impl HeadedEncoder {
    /// Loads an encoder from a model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is not an encoder.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let encoder = TextEncoder::load(folder, options)?;
        Ok(match encoder.model().head() {
            EncoderHead::None => Self::States(encoder),
            EncoderHead::Classes => Self::Classes(Classifier::of(encoder)?),
            EncoderHead::TokenClasses => Self::Tags(Tagger::of(encoder)?),
            EncoderHead::MaskedLanguageModel => Self::Words(Filler::of(encoder)?),
        })
    }

    /// The encoder.
    pub fn encoder(&self) -> &TextEncoder {
        match self {
            Self::States(encoder) => encoder,
            Self::Classes(classifier) => classifier.encoder(),
            Self::Tags(tagger) => tagger.encoder(),
            Self::Words(filler) => filler.encoder(),
        }
    }

    /// A text as the model reads it, and its tokens: with the prompt of a sentence-transformers folder, and with masks where the
    /// head is for masked words.
    ///
    /// # Errors
    /// If the text has no tokens, or more than the model accepts and `long` does not cut it.
    pub fn read(&self, text: &str, long: LongTexts) -> Result<(String, TextInput)> {
        match self {
            Self::States(encoder) => {
                let text = encoder.prepared(text);
                let input = encoder.read(&text, long)?;
                Ok((text, input))
            }
            Self::Words(filler) => Ok((text.to_owned(), filler.read_marked(text, long)?)),
            Self::Classes(_) | Self::Tags(_) => Ok((text.to_owned(), self.encoder().read(text, long)?)),
        }
    }
}
