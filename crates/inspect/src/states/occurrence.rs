//! Occurrences of a word in a text.
//!
//! Case is ignored. Letters and digits beside an occurrence must not continue it (*bank* is not in *banker*), except in scripts
//! without spaces between words.

use std::ops::Range;

/// The byte ranges of `word` in a text, from left to right, without overlap.
pub(super) fn occurrences(text: &str, word: &str) -> Vec<Range<usize>> {
    let wanted: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    let mut found: Vec<Range<usize>> = Vec::new();
    if wanted.is_empty() {
        return found;
    }
    for (start, _) in text.char_indices() {
        if found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let end = match_end(&text[start..], &wanted).map(|length| start + length);
        found.extend(end.map(|end| start..end).filter(|range| is_whole(text, range)));
    }
    found
}

/// The words of a text: runs of letters and digits.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Length in bytes of the letters at the start of `text` that are `wanted` in lower case.
fn match_end(text: &str, wanted: &[char]) -> Option<usize> {
    let mut wanted = wanted.iter();
    for (at, letter) in text.char_indices() {
        if wanted.as_slice().is_empty() {
            return Some(at);
        }
        for own in letter.to_lowercase() {
            if wanted.next() != Some(&own) {
                return None;
            }
        }
    }
    wanted.as_slice().is_empty().then_some(text.len())
}

/// True if no letter or digit beside the range continues it.
fn is_whole(text: &str, range: &Range<usize>) -> bool {
    let joins = |a: Option<char>, b: Option<char>| {
        [a, b].into_iter().all(|letter| letter.is_some_and(continues_words))
    };
    let own = &text[range.clone()];
    !joins(text[..range.start].chars().next_back(), own.chars().next())
        && !joins(own.chars().next_back(), text[range.end..].chars().next())
}

/// True for a letter or digit of a script with spaces between words.
fn continues_words(letter: char) -> bool {
    let has_no_spaces = matches!(
        letter,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    );
    letter.is_alphanumeric() && !has_no_spaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_found_whatever_their_case() {
        let text = "Banks? The bank’s BANK, a banker.";
        let found: Vec<&str> = occurrences(text, "bank").into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["bank", "BANK"]);
        assert_eq!(occurrences("I bank only at my local bank.", "bank"), [2..6, 24..28]);
        assert_eq!(occurrences("new york, New York", "New York"), [0..8, 10..18]);
        assert_eq!(occurrences("aaa a a", "a"), [4..5, 6..7]);
        assert!(occurrences("bank", "").is_empty() && occurrences("", "bank").is_empty());
    }

    #[test]
    fn scripts_without_spaces_and_letters_of_several_cases() {
        assert_eq!(occurrences("銀行は銀行だ", "銀行"), [0..6, 9..15]);
        let text = "İstanbul, STRASSE ẞ";
        assert_eq!(occurrences(text, "i\u{307}stanbul").len(), 1);
        assert_eq!(occurrences(text, "ß").len(), 1);
        assert_eq!(words("I bank, only (at) my").collect::<Vec<_>>(), ["I", "bank", "only", "at", "my"]);
    }
}
