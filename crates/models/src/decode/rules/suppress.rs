//! Suppressed sequences of tokens: the last token of a sequence is forbidden after the others
//! (`NoBadWordsLogitsProcessor`).

/// Tokens that would complete one of `sequences`. An end token alone stays allowed, or no sequence could end.
pub(super) fn forbidden(
    sequences: &[Vec<u32>],
    end_ids: impl Iterator<Item = u32> + Clone,
    history: &[u32],
) -> impl Iterator<Item = u32> {
    let is_end = move |sequence: &[u32]| end_ids.clone().any(|end| *sequence == [end]);
    sequences
        .iter()
        .filter(move |sequence| !is_end(sequence))
        .filter_map(|sequence| completes(sequence, history))
}

/// The last token of `sequence` if `history` ends with the others. As in transformers, a sequence that would begin with
/// the start token does not count.
pub(super) fn completes(sequence: &[u32], history: &[u32]) -> Option<u32> {
    let (&last, before) = sequence.split_last()?;
    (before.is_empty() || (before.len() < history.len() && history.ends_with(before))).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_forbidden_at_its_last_token() {
        let sequences = [vec![3], vec![1, 2], vec![4, 1, 0], vec![0], vec![]];
        let forbidden =
            |history: &[u32]| -> Vec<u32> { forbidden(&sequences, [0].into_iter(), history).collect() };
        assert_eq!(forbidden(&[4]), [3]);
        assert_eq!(forbidden(&[9, 4, 1]), [3, 2, 0]);
        assert_eq!(forbidden(&[9, 1]), [3, 2]);
        // The start token is not part of the sequence.
        assert_eq!(forbidden(&[1]), [3]);
    }
}
