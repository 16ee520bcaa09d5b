//! Decoding: generating sequences token by token. Methods use a model only through [`NextToken`].
//!
//! 1. [`greedy`] takes the most probable token, [`beam`] is beam search, [`sample`] draws at random, [`constrained`] includes
//!    given words, [`alternatives`] lists the runners-up at a position.
//! 2. [`score`] computes the log-probabilities of a given translation; [`ensemble`] averages several models.
//! 3. [`rules`] forbid and force tokens; [`options`] set start, end and length of a sequence.
//!
//! A method defines the search of one sentence (`rows::Search`); `rows` steps many of them together. The searches are
//! independent, so the result of a sentence does not depend on its batch.

pub mod alternatives;
pub mod beam;
pub mod constrained;
pub mod coverage;
pub mod ensemble;
mod finished;
pub mod greedy;
pub mod length_penalty;
pub mod options;
mod partial;
mod rows;
pub mod rules;
pub mod sample;
pub mod score;
pub mod stopping;
pub mod surface_forms;
pub mod trace;

pub use options::{DecodeOptions, Lengths};

use polyhead_tensor::Tensor;

use crate::Result;

/// A model that predicts the next token of several sequences.
pub trait NextToken {
    /// The decoder state, such as a K/V cache.
    type State;

    /// The state before the first token, with one row per source; [`Self::reorder`] may raise that to `n_rows` rows.
    ///
    /// # Errors
    /// If a source is invalid.
    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State>;

    /// Appends one token to each row and returns the logits of the next: rows × vocab_size, on any device. On a GPU the
    /// next step may overwrite them.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor>;

    /// Same as [`Self::step`], with the attention weights of each row over the source: rows × source length (or more),
    /// each row summing to 1. `None` for a model that does not attend to its source.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step_with_attention(
        &self,
        state: &mut Self::State,
        tokens: &[u32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        Ok((self.step(state, tokens)?, None))
    }

    /// Replaces row i by row `rows[i]`; rows that are not listed are dropped.
    fn reorder(&self, state: &mut Self::State, rows: &[usize]);
}

/// A finished sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, including the end token if it was generated.
    pub ids: Vec<u32>,
    /// The sum of the model's log-probabilities of its tokens.
    pub log_probability: f64,
    /// The score it was ranked by: in beam search the sum after all rules, divided by the length penalty; otherwise
    /// `log_probability`.
    pub score: f64,
}
