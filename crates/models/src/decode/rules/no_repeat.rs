//! No n-gram twice (Paulus, Xiong & Socher 2018, section 2.5): a token is forbidden if with the n − 1 tokens before it
//! it would repeat n tokens of the history (`NoRepeatNGramLogitsProcessor`).

use super::forbid;

/// Forbids what would complete an n-gram of `history` again; nothing if n is 0.
pub(super) fn apply(n: usize, history: &[u32], scores: &mut [f32]) {
    if n == 0 || history.len() < n {
        return;
    }
    let newest = &history[history.len() + 1 - n..];
    for window in history.windows(n) {
        if window[..n - 1] == *newest {
            forbid(scores, window[n - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(n: usize, history: &[u32]) -> Vec<usize> {
        let mut scores = [0.0; 6];
        apply(n, history, &mut scores);
        (0..6).filter(|&id| scores[id] < 0.0).collect()
    }

    #[test]
    fn what_followed_before_does_not_follow_again() {
        assert_eq!(forbidden(2, &[5, 1, 2, 1, 3, 1]), [2, 3]);
        assert_eq!(forbidden(3, &[5, 1, 2, 1, 3, 1]), [0_usize; 0]);
        assert_eq!(forbidden(3, &[5, 1, 2, 4, 1, 2]), [4]);
        assert_eq!(forbidden(1, &[5, 1, 2]), [1, 2, 5]);
        assert_eq!(forbidden(0, &[5, 1, 2]), [0_usize; 0]);
        assert_eq!(forbidden(4, &[1, 1, 1]), [0_usize; 0]);
    }
}
