//! Decoding: generating sequences token by token. Methods use a model only through [`NextToken`].
//!
//! 1. [`greedy`] takes the most probable token, [`beam`] is beam search, [`sample`] draws at random ([`sampler`] one token at a time), [`constrained`] includes
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
pub(crate) mod rows;
pub mod rules;
pub mod sample;
pub mod sampler;
pub mod score;
pub mod stopping;
pub mod surface_forms;
pub mod trace;

pub use options::{DecodeOptions, Lengths};

use polyhead_tensor::Tensor;

use crate::Result;

/// Logits of the next token of each row.
#[derive(Debug)]
pub enum StepLogits<'a> {
    /// Of all tokens: rows × vocab_size, on any device.
    All(Tensor),
    /// Of listed tokens; no other token can be generated.
    Listed {
        /// The rows in order, those of one list together.
        groups: Vec<ListedLogits<'a>>,
        /// Size of the whole vocabulary.
        vocab_size: usize,
    },
}

/// Logits of the tokens of one list.
#[derive(Debug)]
pub struct ListedLogits<'a> {
    /// Rows × listed tokens, in CPU memory.
    pub logits: Tensor,
    /// The tokens, ascending.
    pub ids: &'a [u32],
}

/// A model that predicts the next token of several sequences.
pub trait NextToken {
    /// The decoder state, such as a K/V cache.
    type State;

    /// The state before the first token, with one row per source; [`Self::reorder`] may raise that to `n_rows` rows.
    ///
    /// # Errors
    /// If a source is invalid.
    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State>;

    /// The token of the first step: the start token; a language model's is the last token of its prompt.
    fn first_token(&self, _source: &[u32], start_id: u32) -> u32 {
        start_id
    }

    /// Appends one token to each row and returns the logits of the next: rows × vocab_size, on any device. On a GPU the
    /// next step may overwrite them.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor>;

    /// Same as [`Self::step`]; a model that can generate listed tokens only returns the logits of these, which is faster.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step_listed(&self, state: &mut Self::State, tokens: &[u32]) -> Result<StepLogits<'_>> {
        Ok(StepLogits::All(self.step(state, tokens)?))
    }

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
    /// The score it was ranked by: in beam search the sum after all rules, divided by the length penalty; otherwise the
    /// sum of the model's log-probabilities. A forced prefix does not count.
    pub score: f64,
}
