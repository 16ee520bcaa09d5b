//! Operations on the state of generation, by which sequences share a batch for as long as they like: a prompt is appended to
//! a state, rows join and leave, and the state after a common prefix is copied instead of computed again.
//!
//! Rows are independent of each other, and a state does not depend on the operations by which it was reached: on a CPU the
//! logits of a text are the same bits, read at once or in parts, alone or among others.

use crate::language_model::{LanguageModel, LanguageModelDecoding, LanguageModelState};
use crate::{Error, Result};

impl LanguageModelDecoding<'_> {
    /// The state after each text, which may be empty, with room for `n_rows` rows; unlike
    /// [`crate::decode::NextToken::start`] it reads the last token, too.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a text longer than the context.
    pub fn read(&self, texts: &[&[u32]], n_rows: usize) -> Result<LanguageModelState> {
        Ok(match self.model {
            LanguageModel::Window(model) => LanguageModelState::Window(model.start(texts)),
            LanguageModel::Recurrent(model) => {
                LanguageModelState::Recurrent(self.with_pass(|pass| model.start(pass, texts))?)
            }
            LanguageModel::Transformer(model) => {
                LanguageModelState::Transformer(self.with_pass(|pass| model.start(pass, texts, n_rows))?)
            }
        })
    }

    /// True if [`Self::extend`] appends to rows that have tokens, and rows may become more than there was room for: on a CPU.
    pub fn is_extendable(&self, state: &LanguageModelState) -> bool {
        match state {
            LanguageModelState::Window(_) | LanguageModelState::Recurrent(_) => true,
            LanguageModelState::Transformer(state) => state.is_extendable(),
        }
    }

    /// Frees the memory of rows that were dropped by [`crate::decode::NextToken::reorder`], which keeps it for others.
    pub fn release(&self, state: &mut LanguageModelState) {
        if let LanguageModelState::Transformer(state) = state {
            state.release();
        }
    }

    /// Appends a text, which may be empty, to each row.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a text becomes longer than the context.
    ///
    /// # Panics
    /// If the number of texts is not the number of rows, the state is that of another model, or it is not extendable.
    pub fn extend(&self, state: &mut LanguageModelState, texts: &[&[u32]]) -> Result<()> {
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(());
        }
        match (self.model, state) {
            (LanguageModel::Window(model), LanguageModelState::Window(state)) => {
                model.extend(state, texts);
                Ok(())
            }
            (LanguageModel::Recurrent(model), LanguageModelState::Recurrent(state)) => {
                self.with_pass(|pass| model.extend(pass, state, texts))
            }
            (LanguageModel::Transformer(model), LanguageModelState::Transformer(state)) => {
                self.with_pass(|pass| model.extend(pass, state, texts))
            }
            _ => unreachable!("a state is that of its own model"),
        }
    }

    /// A copy of one row after the first `length` of its `n_tokens` tokens; `None` if the model does not keep what it was then, as
    /// a recurrent state does not, or the device does not copy.
    ///
    /// # Errors
    /// If the row has fewer tokens, or the device fails.
    pub fn prefix(
        &self,
        state: &LanguageModelState,
        row: usize,
        [length, n_tokens]: [usize; 2],
    ) -> Result<Option<LanguageModelState>> {
        if length > n_tokens {
            let message = format!("the first {length} of {n_tokens} tokens, expected at most all");
            return Err(Error::Request { message });
        }
        Ok(match state {
            LanguageModelState::Transformer(state) => {
                state.prefix(row, length).map(LanguageModelState::Transformer)
            }
            _ if length < n_tokens => None,
            LanguageModelState::Window(state) => Some(LanguageModelState::Window(state.row(row))),
            LanguageModelState::Recurrent(state) => {
                Some(LanguageModelState::Recurrent(state.row(row, &self.parameters.device())?))
            }
        })
    }
}
