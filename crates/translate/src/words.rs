//! The words of a text, and which of them a token belongs to. A word is a run without white space.

use std::ops::Range;

/// The byte ranges of the words of a text.
pub fn words(text: &str) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect()
}

/// The index of the word that a token with these bytes of the text ends in; none for a token without text.
pub fn word_at(words: &[Range<usize>], token: &Range<usize>) -> Option<usize> {
    let last = (!token.is_empty()).then(|| token.end - 1)?;
    let word = words.partition_point(|word| word.end <= last);
    words.get(word).is_some_and(|found| found.start <= last).then_some(word)
}

/// Counts the words of a text from its beginning, for rising positions.
pub(crate) struct WordCounter<'a> {
    text: &'a str,
    /// Byte up to which words were counted.
    position: usize,
    /// Words that begin before `position`.
    count: usize,
}

impl<'a> WordCounter<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, position: 0, count: 0 }
    }

    /// The index of the word at byte `position`, or of the next one. Positions must not fall.
    pub(crate) fn at(&mut self, position: usize) -> usize {
        let is_of_word = |letter: char| !letter.is_whitespace();
        let mut is_inside = self.text[..self.position].ends_with(is_of_word);
        for letter in self.text[self.position..position].chars() {
            self.count += usize::from(is_of_word(letter) && !is_inside);
            is_inside = is_of_word(letter);
        }
        self.position = position;
        self.count - usize::from(is_inside && self.text[position..].starts_with(is_of_word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_belong_to_the_word_they_end_in() {
        let words = words(" ab  cde");
        assert_eq!(words, [1..3, 5..8]);
        let tokens = [0..2, 2..3, 3..6, 7..8, 8..8, 0..1];
        let found = tokens.map(|token| word_at(&words, &token));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), None, None]);
    }

    #[test]
    fn words_are_counted_from_the_beginning_of_the_text() {
        let text = " ab cde。fg";
        let mut words = WordCounter::new(text);
        let found = ["ab", "cde", "fg"].map(|part| words.at(text.find(part).unwrap()));
        assert_eq!((found, words.at(text.len())), ([0, 1, 1], 2));
        let mut word = WordCounter::new("ab");
        assert_eq!([word.at(0), word.at(1), word.at(2)], [0, 0, 1]);
    }
}
