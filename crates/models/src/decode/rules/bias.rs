//! Biases of tokens and sequences of tokens: a number is added to the score of a sequence's last token after its others
//! (`SequenceBiasLogitsProcessor`).

use super::suppress::completes;
use crate::{Error, Result};

/// A sequence of tokens and the number that is added to the score of its last token after the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceBias {
    /// The tokens.
    pub ids: Vec<u32>,
    /// The number; above 0 it favours the sequence.
    pub bias: f32,
}

/// Adds the biases of the sequences that a token would complete after `history`.
pub(super) fn apply(biases: &[SequenceBias], history: &[u32], scores: &mut [f32]) -> Result<()> {
    let vocab_size = scores.len();
    for SequenceBias { ids, bias } in biases {
        let Some(last) = completes(ids, history) else { continue };
        *scores.get_mut(last as usize).ok_or_else(|| Error::Request {
            message: format!("a bias of token {last}, expected an id below the vocabulary size {vocab_size}"),
        })? += bias;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_added_where_its_sequence_would_be_complete() {
        let biases = [(vec![1], 0.5), (vec![2, 1], 1.0), (vec![0, 1], 8.0)]
            .map(|(ids, bias)| SequenceBias { ids, bias });
        let mut scores = [0.0; 3];
        apply(&biases, &[0, 2], &mut scores).unwrap();
        assert_eq!(scores, [0.0, 1.5, 0.0]);
        let outside = [SequenceBias { ids: vec![3], bias: 1.0 }];
        assert!(apply(&outside, &[0], &mut scores).is_err());
    }
}
