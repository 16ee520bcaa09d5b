//! Suppressed tokens and sequences of tokens: the last token of a sequence is forbidden where the others stand before
//! it (`NoBadWordsLogitsProcessor`).

use super::forbid;

/// Forbids what would complete one of `sequences`. The end token alone stays allowed, or no sequence could end.
pub(super) fn apply(sequences: &[Vec<u32>], end_id: u32, history: &[u32], scores: &mut [f32]) {
    for sequence in sequences {
        if let Some((&last, before)) = sequence.split_last()
            && history.ends_with(before)
            && sequence[..] != [end_id]
        {
            forbid(scores, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_forbidden_at_its_last_token() {
        let sequences = [vec![3], vec![1, 2], vec![4, 1, 0], vec![0], vec![]];
        let forbidden = |history: &[u32]| -> Vec<usize> {
            let mut scores = [-1.0; 5];
            apply(&sequences, 0, history, &mut scores);
            (0..5).filter(|&id| scores[id] == f32::NEG_INFINITY).collect()
        };
        assert_eq!(forbidden(&[4]), [3]);
        assert_eq!(forbidden(&[4, 1]), [0, 2, 3]);
        assert_eq!(forbidden(&[1]), [2, 3]);
    }
}
