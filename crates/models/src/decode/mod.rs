//! Choosing tokens one after the other. Methods see a model only through [`NextToken`].

pub mod greedy;

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

    /// Takes one token for each row and gives the logits of the next: rows × vocabulary.
    ///
    /// # Errors
    /// If a token is outside the vocabulary.
    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor>;

    /// Row i becomes what row `rows[i]` was; rows that are not named end.
    fn reorder(&self, state: &mut Self::State, rows: &[usize]);
}

/// A finished sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, the end token included if it came.
    pub ids: Vec<u32>,
    /// The sum of the log-probabilities of its tokens.
    pub log_probability: f64,
}
