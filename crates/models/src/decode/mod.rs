//! Choosing tokens one after the other. Methods see a model only through [`NextToken`].
//!
//! 1. [`greedy`] takes the most probable token, [`beam`] follows several hypotheses, [`sample`] draws,
//!    [`constrained`] must use given words, [`alternatives`] asks what else could stand at a place.
//! 2. [`score`] gives the probability of a given translation; [`ensemble`] makes one model of several.
//! 3. [`rules`] forbid and force tokens; [`options`] say where a sequence starts and ends.
//!
//! Every method says what one sentence does with its scores (`rows::Search`); `rows` steps many of them together. A
//! sentence never sees another, so its result does not depend on its batch.

pub mod alternatives;
pub mod beam;
pub mod constrained;
pub mod coverage;
pub mod ensemble;
mod finished;
pub mod greedy;
pub mod length_penalty;
pub mod options;
mod path;
mod rows;
pub mod rules;
pub mod sample;
pub mod score;
pub mod spelling;
pub mod stopping;
pub mod trace;

pub use options::{DecodeOptions, Lengths};

use polyhead_tensor::Tensor;

use crate::Result;

/// A model that scores the next token of several sequences.
pub trait NextToken {
    /// What it remembers of the tokens so far.
    type State;

    /// The state before the first token, one row for each source; later there may be up to `n_rows` rows.
    ///
    /// # Errors
    /// If a source cannot be read.
    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State>;

    /// Takes one token for each row and gives the logits of the next: rows × vocabulary, on any device. The next step may
    /// write over those of a card.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor>;

    /// [`Self::step`], and how much each row looked at each source token for it: rows × source length or more, each row
    /// summing to 1. None from a model that does not attend to its source.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step_attending(&self, state: &mut Self::State, tokens: &[u32]) -> Result<(Tensor, Option<Tensor>)> {
        Ok((self.step(state, tokens)?, None))
    }

    /// Row i becomes what row `rows[i]` was; rows that are not named end.
    fn reorder(&self, state: &mut Self::State, rows: &[usize]);
}

/// A finished sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, the end token included if it came.
    pub ids: Vec<u32>,
    /// The sum of the log-probabilities of its tokens, as the model gives them.
    pub log_probability: f64,
    /// What it was ranked by: with beams the sum after all rules over the length penalty, else `log_probability`.
    pub score: f64,
}
