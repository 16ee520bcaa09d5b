//! What the model thought at each step: log p(y_t | y_1 … y_{t−1}, x) of the token that was written, and the tokens that
//! it held most probable.

use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::Result;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The log-probability of the token that was written.
    pub log_probability: f32,
    /// The most probable tokens, best first.
    pub alternatives: Vec<Alternative>,
}

/// A token that could have been written.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// Its id.
    pub id: u32,
    /// How the vocabulary spells it.
    pub piece: String,
    /// Its log-probability.
    pub log_probability: f32,
}

/// The steps that wrote `ids`; logits are 1 × steps × vocabulary.
pub(super) fn steps(
    logits: &Tensor,
    ids: &[u32],
    n_alternatives: usize,
    piece: impl Fn(u32) -> String,
) -> Result<Vec<Step>> {
    let logits = logits.to_host().map_err(polyhead_models::Error::from)?;
    let vocab_size = logits.shape().last().copied().unwrap_or(1);
    let row = |(logits, &id): (&[f32], &u32)| {
        // A row at a time: all at once would double the largest array.
        let logits = Var::constant(Tensor::new(&[1, vocab_size], logits.to_vec()));
        let all = log_softmax(&Tape::inference(), &logits);
        let all = all.value().data();
        let alternative =
            |Candidate { id, score }| Alternative { id, piece: piece(id), log_probability: score };
        let alternatives = top(all, n_alternatives).into_iter().map(alternative).collect();
        Step { log_probability: all[id as usize], alternatives }
    };
    Ok(logits.data().chunks_exact(vocab_size).zip(ids).map(row).collect())
}
