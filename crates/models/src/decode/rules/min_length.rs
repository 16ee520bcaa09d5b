//! Minimum length: end tokens are forbidden until there are enough tokens (`MinNewTokensLengthLogitsProcessor`).

/// `end_ids` while fewer than `min` tokens follow the start token.
pub(super) fn forbidden(
    min: usize,
    end_ids: impl Iterator<Item = u32>,
    history: &[u32],
) -> impl Iterator<Item = u32> {
    let is_short = history.len() <= min;
    end_ids.filter(move |_| is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_are_forbidden_below_the_minimum() {
        let forbidden = |history| forbidden(2, [0, 7].into_iter(), history).collect::<Vec<_>>();
        assert_eq!(forbidden(&[9, 1, 2]), [0_u32; 0]);
        assert_eq!(forbidden(&[9, 1]), [0, 7]);
    }
}
