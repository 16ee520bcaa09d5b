//! Text that grows token by token, without half characters.
//!
//! The text of a token depends on its neighbours: several tokens may spell one character in bytes, and a space may belong to the
//! token before. So the tokens since the last pieces of text are decoded together with those pieces, and text is passed on as
//! soon as it ends with a whole character.

use super::Tokenizer;
use crate::Result;

/// Tokens of a prompt that the first tokens after it are decoded with.
const CONTEXT: usize = 16;

/// The text of a growing sequence of tokens.
///
/// Special tokens and ids without a token have no text. Bytes that are no character become U+FFFD once it is clear that they
/// stay so.
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    ids: Vec<u32>,
    /// The first token that is decoded.
    start: usize,
    /// Tokens whose text was passed on.
    done: usize,
}

impl TextStream {
    /// The text after a prompt.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn after(prompt: &[u32], tokenizer: &Tokenizer) -> Result<Self> {
        let mut length = CONTEXT.min(prompt.len());
        loop {
            let mut context = prompt[prompt.len() - length..].to_vec();
            context.retain(|&id| tokenizer.piece(id).is_some());
            // A context must not begin in the middle of a character.
            if length == prompt.len() || !tokenizer.decode(&context)?.starts_with('\u{fffd}') {
                let done = context.len();
                return Ok(Self { ids: context, start: 0, done });
            }
            length = (length + CONTEXT).min(prompt.len());
        }
    }

    /// Appends a token; returns the text that is complete now.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn push(&mut self, id: u32, tokenizer: &Tokenizer) -> Result<String> {
        if tokenizer.piece(id).is_none() {
            return Ok(String::new());
        }
        self.ids.push(id);
        let text = self.pending(tokenizer)?;
        if text.is_empty() || text.ends_with('\u{fffd}') {
            return Ok(String::new());
        }
        // White space alone may be lost at the beginning of what is decoded next.
        if text.chars().any(|c| !c.is_whitespace()) {
            self.start = self.done;
        }
        self.done = self.ids.len();
        Ok(text)
    }

    /// The rest of the text, where no more tokens follow.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let text = self.pending(tokenizer)?;
        self.done = self.ids.len();
        Ok(text)
    }

    /// The text of the tokens whose text was not passed on yet.
    fn pending(&self, tokenizer: &Tokenizer) -> Result<String> {
        let before = tokenizer.decode(&self.ids[self.start..self.done])?;
        let all = tokenizer.decode(&self.ids[self.start..])?;
        match all.strip_prefix(&before) {
            Some(text) => Ok(text.to_owned()),
            None => tokenizer.decode(&self.ids[self.done..]),
        }
    }
}
