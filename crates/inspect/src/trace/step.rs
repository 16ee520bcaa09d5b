//! Probabilities at each decoding step: log p(y_t | y_1 … y_{t−1}, x) of the token written, and the most probable tokens.

use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::Result;

/// One decoding step.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceStep {
    /// Log-probability of the token written.
    pub log_probability: f32,
    /// The most probable tokens, best first.
    pub alternatives: Vec<Alternative>,
}

/// An alternative token.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// Token id.
    pub id: u32,
    /// Vocabulary entry.
    pub piece: String,
    /// Log-probability.
    pub log_probability: f32,
}

/// The steps of `ids`; logits are 1 × steps × vocabulary.
pub(super) fn steps(
    logits: &Tensor,
    ids: &[u32],
    n_alternatives: usize,
    piece: impl Fn(u32) -> String,
) -> Result<Vec<TraceStep>> {
    let logits = logits.to_host().map_err(polyhead_models::Error::from)?;
    let vocab_size = logits.shape().last().copied().unwrap_or(1);
    let row = |(logits, &id): (&[f32], &u32)| {
        // One row at a time: all at once would double the largest array.
        let logits = Var::constant(Tensor::new(&[1, vocab_size], logits.to_vec()));
        let all = log_softmax(&Tape::inference(), &logits);
        let all = all.value().data();
        let alternative =
            |Candidate { id, score }| Alternative { id, piece: piece(id), log_probability: score };
        let alternatives = top(all, n_alternatives).into_iter().map(alternative).collect();
        TraceStep { log_probability: all[id as usize], alternatives }
    };
    Ok(logits.data().chunks_exact(vocab_size).zip(ids).map(row).collect())
}
