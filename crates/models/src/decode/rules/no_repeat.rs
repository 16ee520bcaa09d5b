//! No repeated n-grams (Paulus, Xiong & Socher 2018, section 2.5): a token is forbidden if it and the n − 1 tokens before
//! it already occur in the history (`NoRepeatNGramLogitsProcessor`).

/// Tokens that would repeat an n-gram of `history`; none if n is 0.
pub(super) fn forbidden(n: usize, history: &[u32]) -> Vec<u32> {
    if n == 0 || history.len() < n {
        return Vec::new();
    }
    let newest = &history[history.len() + 1 - n..];
    history.windows(n).filter(|window| window[..n - 1] == *newest).map(|window| window[n - 1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_would_repeat_an_ngram_are_forbidden() {
        assert_eq!(forbidden(2, &[5, 1, 2, 1, 3, 1]), [2, 3]);
        assert_eq!(forbidden(3, &[5, 1, 2, 1, 3, 1]), [0_u32; 0]);
        assert_eq!(forbidden(3, &[5, 1, 2, 4, 1, 2]), [4]);
        assert_eq!(forbidden(1, &[5, 1, 2]), [5, 1, 2]);
        assert_eq!(forbidden(0, &[5, 1, 2]), [0_u32; 0]);
        assert_eq!(forbidden(4, &[1, 1, 1]), [0_u32; 0]);
    }
}
