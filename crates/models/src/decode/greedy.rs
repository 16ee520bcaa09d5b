//! Greedy decoding: always the most probable token, the smaller id of equals.
//!
//! y_t = argmax p(y | y_1 … y_{t−1}, x), until the end token or the limit.

use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Var};

use super::{Hypothesis, NextToken};
use crate::Result;

/// When to start and to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreedyOptions {
    /// The token that decoding starts from.
    pub start_id: u32,
    /// The token that ends a sequence.
    pub end_id: u32,
    /// Most tokens, the end token included.
    pub max_length: usize,
}

/// The greedy continuation of each source. Sequences that end leave the batch.
///
/// # Errors
/// If a source cannot be read.
pub fn greedy<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: GreedyOptions,
) -> Result<Vec<Hypothesis>> {
    let mut found = vec![Hypothesis { ids: Vec::new(), log_probability: 0.0 }; sources.len()];
    if sources.is_empty() || options.max_length == 0 {
        return Ok(found);
    }
    let mut state = model.start(sources, sources.len())?;
    let mut rows: Vec<usize> = (0..sources.len()).collect();
    let mut tokens = vec![options.start_id; sources.len()];
    for _ in 0..options.max_length {
        let logits = model.step(&mut state, &tokens)?;
        let vocab_size = logits.shape().last().copied().unwrap_or(0).max(1);
        let scores = log_softmax(&Tape::inference(), &Var::constant(logits));
        tokens.clear();
        for (&row, scores) in rows.iter().zip(scores.value().data().chunks_exact(vocab_size)) {
            let (id, score) = best(scores);
            found[row].ids.push(id);
            found[row].log_probability += f64::from(score);
            tokens.push(id);
        }
        let going: Vec<usize> = (0..rows.len()).filter(|&row| tokens[row] != options.end_id).collect();
        if going.is_empty() {
            break;
        }
        if going.len() < rows.len() {
            model.reorder(&mut state, &going);
            rows = going.iter().map(|&row| rows[row]).collect();
            tokens = going.iter().map(|&row| tokens[row]).collect();
        }
    }
    Ok(found)
}

/// The highest score and its id.
fn best(scores: &[f32]) -> (u32, f32) {
    let first = (0, f32::NEG_INFINITY);
    scores.iter().zip(0..).fold(first, |best, (&score, id)| if score > best.1 { (id, score) } else { best })
}
