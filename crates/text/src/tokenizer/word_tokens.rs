//! The tokens of words that are given, as for tagging them: a word has the label of its first token.

use std::ops::Range;

use super::Encoding;

impl Encoding {
    /// The index of the first token of each word of `text`, whose bytes are `words` in order; `None` for a word without a token of
    /// its own, such as one of invisible characters. Tokens that cover only white space belong to no word.
    pub fn first_tokens(&self, text: &str, words: &[Range<usize>]) -> Vec<Option<usize>> {
        let mut first = vec![None; words.len()];
        let mut word = 0;
        for (token, range) in self.offsets.iter().enumerate() {
            let own = &text[range.clone()];
            let start = range.start + (own.len() - own.trim_start().len());
            if own.trim().is_empty() {
                continue;
            }
            while words.get(word).is_some_and(|word| word.end <= start) {
                word += 1;
            }
            if let (Some(first), Some(range)) = (first.get_mut(word), words.get(word))
                && first.is_none()
                && start >= range.start
            {
                *first = Some(token);
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_first_tokens() {
        let text = "New York's \u{200b} hall";
        // A special token, the mark of a space, subwords, no token for the invisible word, a token with the space before it.
        let offsets = [0..0, 0..3, 3..4, 4..6, 6..8, 8..10, 14..19, 19..19];
        let ids = vec![0; offsets.len()];
        let encoding = Encoding { ids, pieces: Vec::new(), offsets: offsets.to_vec() };
        let words = [0..3, 4..10, 11..14, 15..19];
        assert_eq!(encoding.first_tokens(text, &words), [Some(1), Some(3), None, Some(6)]);
        assert_eq!(encoding.first_tokens(text, &[]), []);
    }
}
