//! Suppressed tokens and sequences of tokens: the last token of a sequence is forbidden after the others
//! (`NoBadWordsLogitsProcessor`).

/// Tokens that would complete one of `sequences`. The end token alone stays allowed, or no sequence could end.
pub(super) fn forbidden(sequences: &[Vec<u32>], end_id: u32, history: &[u32]) -> impl Iterator<Item = u32> {
    sequences.iter().filter(move |sequence| sequence[..] != [end_id]).filter_map(|sequence| {
        let (&last, before) = sequence.split_last()?;
        history.ends_with(before).then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_forbidden_at_its_last_token() {
        let sequences = [vec![3], vec![1, 2], vec![4, 1, 0], vec![0], vec![]];
        let forbidden = |history: &[u32]| -> Vec<u32> { forbidden(&sequences, 0, history).collect() };
        assert_eq!(forbidden(&[4]), [3]);
        assert_eq!(forbidden(&[4, 1]), [3, 2, 0]);
        assert_eq!(forbidden(&[1]), [3, 2]);
    }
}
