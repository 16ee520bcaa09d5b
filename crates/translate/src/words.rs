//! The words of a text, and which of them a piece belongs to. A word is a run without white space.

use std::ops::Range;

/// Where the words of a text stand, in bytes.
pub fn words(text: &str) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect()
}

/// The word that a piece of the text ends in; none for a piece without text.
pub fn word_at(words: &[Range<usize>], piece: &Range<usize>) -> Option<usize> {
    let last = (!piece.is_empty()).then(|| piece.end - 1)?;
    let word = words.partition_point(|word| word.end <= last);
    words.get(word).is_some_and(|found| found.start <= last).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_belong_to_the_word_they_end_in() {
        let words = words(" ab  cde");
        assert_eq!(words, [1..3, 5..8]);
        let pieces = [0..2, 2..3, 3..6, 7..8, 8..8, 0..1];
        let found = pieces.map(|piece| word_at(&words, &piece));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), None, None]);
    }
}
