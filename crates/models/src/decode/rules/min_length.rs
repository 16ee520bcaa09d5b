//! Minimum length: the end token is forbidden until there are enough tokens (`MinNewTokensLengthLogitsProcessor`).

/// `end_id` while fewer than `min` tokens follow the start token.
pub(super) fn forbidden(min: usize, end_id: u32, history: &[u32]) -> Option<u32> {
    (history.len() <= min).then_some(end_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_token_is_forbidden_below_the_minimum() {
        assert_eq!(forbidden(2, 0, &[9, 1, 2]), None);
        assert_eq!(forbidden(2, 0, &[9, 1]), Some(0));
    }
}
