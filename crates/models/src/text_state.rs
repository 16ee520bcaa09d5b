//! Operations on the state of generation, by which sequences share a batch for as long as they like: a prompt is appended to
//! a state, rows join and leave, and the state after a common prefix is copied instead of computed again.
//!
//! Rows are independent of each other, and a state does not depend on the operations by which it was reached: on a CPU the
//! logits of a text are the same bits, read at once or in parts, alone or among others.

use crate::language_model::{LanguageModel, LanguageModelDecoding, LanguageModelState};
use crate::{Error, Result};

impl LanguageModelDecoding<'_> {
    /// The state after each text, which may be empty; unlike [`crate::decode::NextToken::start`] it reads the last token, too.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn read(&self, texts: &[&[u32]]) -> Result<LanguageModelState> {
        Ok(match self.model {
            LanguageModel::Window(model) => LanguageModelState::Window(model.start(texts)),
            LanguageModel::Recurrent(model) => {
                LanguageModelState::Recurrent(self.with_pass(|pass| model.start(pass, texts))?)
            }
        })
    }

    /// Appends a text, which may be empty, to each row.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    ///
    /// # Panics
    /// If the number of texts is not the number of rows, or the state is that of another model.
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
            _ => unreachable!("a state is that of its own model"),
        }
    }

    /// Appends the rows of `other` to those of `state`.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If a state is that of another model.
    pub fn join(&self, state: &mut LanguageModelState, other: LanguageModelState) -> Result<()> {
        match (self.model, state, other) {
            (
                LanguageModel::Window(_),
                LanguageModelState::Window(state),
                LanguageModelState::Window(other),
            ) => {
                state.join(other);
                Ok(())
            }
            (
                LanguageModel::Recurrent(model),
                LanguageModelState::Recurrent(state),
                LanguageModelState::Recurrent(other),
            ) => self.with_pass(|pass| model.join(pass, state, other)),
            _ => unreachable!("a state is that of its own model"),
        }
    }

    /// A copy of one row after the first `length` of its `n_tokens` tokens; `None` if the model does not keep what it was then, as
    /// a recurrent state does not.
    ///
    /// # Errors
    /// If the device fails.
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
            _ if length < n_tokens => None,
            LanguageModelState::Window(state) => Some(LanguageModelState::Window(state.row(row))),
            LanguageModelState::Recurrent(state) => {
                Some(LanguageModelState::Recurrent(state.row(row, &self.parameters.device())?))
            }
        })
    }
}
