//! Timestamps between the words of a speech recogniser, as Whisper writes them (`WhisperTimeStampLogitsProcessor`).
//!
//! A text begins with a timestamp. Timestamps come in pairs, the end of a segment and the start of the next, except before
//! the end token, and never decrease. If all timestamps together are more probable than any other token, one is next.

use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

/// The rules of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// The timestamp 0; later ones follow it. The token before it means that there are none, and is forbidden.
    pub first_id: u32,
    /// The largest first timestamp, counted from `first_id`; default: none.
    pub max_initial: Option<usize>,
}

impl Timestamps {
    /// Applies the rules to the scores of the token after `tokens`, which follow the prefix.
    pub(super) fn apply(self, tokens: &[u32], end_id: u32, scores: &mut [f32]) {
        let first = (self.first_id as usize).min(scores.len());
        let forbid = |scores: &mut [f32]| scores.fill(f32::NEG_INFINITY);
        if let Some(score) = first.checked_sub(1).and_then(|none| scores.get_mut(none)) {
            *score = f32::NEG_INFINITY;
        }
        let is_timestamp = |token: &u32| *token as usize >= first;
        let last_is = tokens.last().is_some_and(is_timestamp);
        let penultimate_is = tokens.len() < 2 || is_timestamp(&tokens[tokens.len() - 2]);
        if last_is && penultimate_is {
            forbid(&mut scores[first..]);
        } else if last_is {
            forbid(&mut scores[..(end_id as usize).min(first)]);
        }
        if let Some(&latest) = tokens.iter().rfind(|token| is_timestamp(token)) {
            // A segment may begin where the one before ended, but must not be empty.
            let least = latest as usize + usize::from(!last_is || penultimate_is);
            let end = least.clamp(first, scores.len());
            forbid(&mut scores[first..end]);
        }
        if tokens.is_empty() {
            forbid(&mut scores[..first]);
            let last = self.max_initial.map_or(scores.len(), |most| first.saturating_add(most + 1));
            let last = last.min(scores.len());
            forbid(&mut scores[last..]);
        }
        if prefers_timestamp(scores, first) {
            forbid(&mut scores[..first]);
        }
    }
}

/// True if all timestamps together are more probable than any other token.
fn prefers_timestamp(scores: &[f32], first: usize) -> bool {
    if first == 0 || first >= scores.len() || scores.iter().all(|score| *score == f32::NEG_INFINITY) {
        return false;
    }
    let all = Var::constant(Tensor::new(&[1, scores.len()], scores.to_vec()));
    let log_probabilities = log_softmax(&Tape::inference(), &all);
    let (text, timestamps) = log_probabilities.value().data().split_at(first);
    let best = text.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = timestamps.iter().map(|score| f64::from(*score).exp()).sum();
    sum.ln() > f64::from(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens 0 to 2 are text, 3 ends, 4 means no timestamps, 5 to 9 are timestamps.
    fn allowed(tokens: &[u32], scores: [f32; 10]) -> Vec<usize> {
        let mut scores = scores;
        Timestamps { first_id: 5, max_initial: Some(2) }.apply(tokens, 3, &mut scores);
        (0..10).filter(|&id| scores[id] > f32::NEG_INFINITY).collect()
    }

    /// Text is more probable than all timestamps.
    const TEXT: [f32; 10] = [9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0];

    #[test]
    fn timestamps_come_in_pairs_and_never_decrease() {
        assert_eq!(allowed(&[], TEXT), [5, 6, 7]);
        assert_eq!(allowed(&[6], TEXT), [0, 1, 2, 3]);
        assert_eq!(allowed(&[6, 0], TEXT), [0, 1, 2, 3, 7, 8, 9]);
        assert_eq!(allowed(&[6, 0, 8], TEXT), [3, 8, 9]);
        assert_eq!(allowed(&[6, 0, 8, 8], TEXT), [0, 1, 2, 3]);
        assert_eq!(allowed(&[6, 0, 8, 8, 1], TEXT), [0, 1, 2, 3, 9]);
        assert_eq!(allowed(&[6, 0, 9], [0.0; 10]), [3, 9]);
    }

    #[test]
    fn probable_timestamps_are_next() {
        // Three timestamps of one probability are together more probable than a token twice as probable.
        let mut scores = [0.0; 10];
        scores[..5].fill(0.69);
        assert_eq!(allowed(&[6, 0], scores), [7, 8, 9]);
        scores[0] = 1.2;
        assert_eq!(allowed(&[6, 0], scores), [0, 1, 2, 3, 7, 8, 9]);
    }
}
