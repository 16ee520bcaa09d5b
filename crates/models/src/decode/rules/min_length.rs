//! Minimum length: the end token is forbidden until there are enough others (`MinNewTokensLengthLogitsProcessor`).

use super::forbid;

/// Forbids `end_id` while fewer than `min` tokens follow the start token.
pub(super) fn apply(min: usize, end_id: u32, history: &[u32], scores: &mut [f32]) {
    if history.len() - 1 < min {
        forbid(scores, end_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_the_minimum() {
        let mut scores = [-1.0; 3];
        apply(2, 0, &[9, 1, 2], &mut scores);
        assert_eq!(scores, [-1.0; 3]);
        apply(2, 0, &[9, 1], &mut scores);
        assert_eq!(scores, [f32::NEG_INFINITY, -1.0, -1.0]);
    }
}
