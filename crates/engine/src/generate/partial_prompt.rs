//! A prompt that is read in parts, between the steps of other sequences, so that a long one does not hold them up. The state
//! after it does not depend on the parts.

use polyhead_models::{LanguageModelDecoding, LanguageModelState};

use super::prompt_cache::{PromptCache, shared_prefixes};
use crate::Result;

/// A prompt of which a part has been read.
#[derive(Debug)]
pub(super) struct PartialPrompt {
    text: Vec<u32>,
    state: LanguageModelState,
    /// Tokens read.
    read: usize,
    /// Lengths at which other prompts part from it, whose states are kept, and its own length.
    lengths: Vec<usize>,
}

impl PartialPrompt {
    /// Begins with what the cache knows.
    pub(super) fn new(
        decoding: &LanguageModelDecoding<'_>,
        text: Vec<u32>,
        cache: &mut PromptCache,
    ) -> Result<Self> {
        let (read, state) = match cache.find(decoding, &text)? {
            Some(known) => known,
            None => (0, decoding.read(&[&[]], 1)?),
        };
        let lengths = shared_prefixes(&[&text], &[read], cache.recent()).remove(0);
        Ok(Self { text, state, read, lengths })
    }

    /// Reads up to `tokens` tokens more; true if all are read.
    pub(super) fn advance(
        &mut self,
        decoding: &LanguageModelDecoding<'_>,
        tokens: usize,
        cache: &mut PromptCache,
    ) -> Result<bool> {
        let mut left = tokens.min(self.text.len() - self.read);
        while left > 0 {
            let next = self.lengths.iter().copied().find(|&length| length > self.read);
            let end = next.unwrap_or(self.text.len()).min(self.read + left);
            decoding.extend(&mut self.state, &[&self.text[self.read..end]])?;
            (left, self.read) = (left - (end - self.read), end);
            if next == Some(end) && end < self.text.len() {
                cache.insert(decoding, &self.text[..end], (&self.state, 0))?;
            }
        }
        Ok(self.read == self.text.len())
    }

    /// The state after all of it.
    pub(super) fn finish(self, cache: &mut PromptCache) -> LanguageModelState {
        cache.remember(&self.text);
        self.state
    }
}
