//! Minimum length: the end token is forbidden until there are enough others (`MinNewTokensLengthLogitsProcessor`).

/// `end_id` while fewer than `min` tokens follow the start token.
pub(super) fn forbidden(min: usize, end_id: u32, history: &[u32]) -> Option<u32> {
    (history.len() <= min).then_some(end_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_the_minimum() {
        assert_eq!(forbidden(2, 0, &[9, 1, 2]), None);
        assert_eq!(forbidden(2, 0, &[9, 1]), Some(0));
    }
}
