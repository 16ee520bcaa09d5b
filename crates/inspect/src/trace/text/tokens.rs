//! The tokens of a text: encoded, given, or generated.

use polyhead_engine::Generator;
use polyhead_engine::generate::GenerateOptions;
use polyhead_text::tokenizer::{Encoding, TextStream};

use super::{TextCallback, TextInput, TextOptions, TextProgress, check};
use crate::trace::TraceSide;
use crate::{Error, Result};

/// Name of the only sequence.
const SIDE: &str = "text";

/// Tokens to append to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continuation {
    /// Maximum number of tokens, an end token included.
    pub max_new_tokens: usize,
    /// Random seed of sampling as the model's settings ask for; default: none, the most probable token is taken.
    pub seed: Option<u64>,
}

/// A text and its tokens.
pub(super) struct TextTokens {
    text: String,
    encoding: Encoding,
    n_generated: usize,
}

impl TextTokens {
    /// The tokens of a text, which the context has room for.
    pub(super) fn new(generator: &Generator, input: &TextInput) -> Result<Self> {
        let found = match input {
            TextInput::Text(text) => {
                Self { text: text.clone(), encoding: generator.encoding(text)?, n_generated: 0 }
            }
            TextInput::Ids(ids) => Self::of_ids(generator, ids)?,
        };
        let length = found.encoding.len();
        match generator.model().max_len() {
            Some(max_len) if length > max_len => {
                let message = format!(
                    "a text of {length} tokens, expected at most {max_len}, the context of the model"
                );
                Err(Error::request(message, "shorten the text"))
            }
            _ => Ok(found),
        }
    }

    fn of_ids(generator: &Generator, ids: &[u32]) -> Result<Self> {
        let vocab_size = generator.model().vocab_size();
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) {
            let message = format!("token {id}, expected an id of 0 to {}", vocab_size - 1);
            return Err(Error::request(message, "send ids of the model's vocabulary"));
        }
        if ids.is_empty() {
            return Err(Error::request("no tokens, expected at least one", "send ids of a text"));
        }
        let mut found = Self { text: String::new(), encoding: Encoding::default(), n_generated: 0 };
        let mut stream = TextStream::default();
        ids.iter().try_for_each(|&id| found.push(generator, &mut stream, id))?;
        found.finish(generator, stream)?;
        Ok(found)
    }

    /// The text with the tokens that the options ask for.
    pub(super) fn continued(
        mut self,
        generator: &Generator,
        options: &TextOptions,
        progress: TextCallback<'_>,
    ) -> Result<Self> {
        let TextOptions { continuation, intervention, .. } = options;
        let Some(Continuation { max_new_tokens, seed }) = *continuation else { return Ok(self) };
        let length = self.encoding.len();
        let room = generator.model().max_len().map_or(usize::MAX, |max_len| max_len - length);
        if room == 0 {
            let message = format!("{length} tokens, which fill the context, expected room for new tokens");
            return Err(Error::request(message, "shorten the text, or generate nothing"));
        }
        let own = generator.options();
        let options = GenerateOptions {
            max_new_tokens: Some(max_new_tokens.min(room)),
            temperature: if seed.is_some() { own.temperature } else { 0.0 },
            seed: seed.unwrap_or_default(),
            ..own
        };
        let mut stream = TextStream::after(&self.encoding.ids, generator.tokenizer()).map_err(engine)?;
        let mut generation = generator.generation().with_intervention(intervention.clone());
        generation.join(&self.encoding.ids, &options, 0)?;
        let start = self.text.len();
        while !generation.is_empty() {
            check(progress, TextProgress::Generated(&self.text[start..], self.n_generated))?;
            for id in generation.step()?.into_iter().filter_map(|token| token.id) {
                self.push(generator, &mut stream, id)?;
                self.n_generated += 1;
            }
        }
        self.finish(generator, stream)?;
        Ok(self)
    }

    /// Appends a token; its byte range is what it adds to the text.
    fn push(&mut self, generator: &Generator, stream: &mut TextStream, id: u32) -> Result<()> {
        let tokenizer = generator.tokenizer();
        let start = self.text.len();
        self.text += &stream.push(id, tokenizer).map_err(engine)?;
        self.encoding.ids.push(id);
        self.encoding.pieces.push(tokenizer.piece(id).unwrap_or_else(|| format!("#{id}")));
        self.encoding.offsets.push(start..self.text.len());
        Ok(())
    }

    /// Appends the rest of the text, where no more tokens follow.
    fn finish(&mut self, generator: &Generator, mut stream: TextStream) -> Result<()> {
        self.text += &stream.finish(generator.tokenizer()).map_err(engine)?;
        let end = self.text.len();
        if let Some(last) = self.encoding.offsets.last_mut() {
            last.end = end;
        }
        Ok(())
    }

    pub(super) fn ids(&self) -> &[u32] {
        &self.encoding.ids
    }

    pub(super) fn n_generated(&self) -> usize {
        self.n_generated
    }

    pub(super) fn into_side(self) -> TraceSide {
        TraceSide::new(SIDE, &self.text, self.encoding)
    }
}

fn engine(error: polyhead_text::Error) -> polyhead_engine::Error {
    error.into()
}
