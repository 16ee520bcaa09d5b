//! Numbers that must not get lost: those of three digits and more, told by their digits alone (*1,234.50* is *1.234,50*).

use std::ops::Range;

/// Digits from which on a number is looked for; smaller ones may be written in words.
const FEWEST_DIGITS: usize = 3;

/// The numbers of `source` whose digits do not stand in `target`.
pub(crate) fn missing(source: &str, target: &str) -> Vec<Range<usize>> {
    let there: Vec<String> = target.split(char::is_alphabetic).map(digits).collect();
    let is_missing = |range: &Range<usize>| {
        let wanted = digits(&source[range.clone()]);
        !there.iter().any(|found| found.contains(&wanted))
    };
    numbers(source).into_iter().filter(is_missing).collect()
}

/// Digits with single marks between them: `3.14`, `1,234.50`, `2026-11-15`, `14:30`.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|digit: char| digit.is_ascii_digit()).map(|start| at + start) {
        let mut end = start;
        let mut characters = text[start..].char_indices().peekable();
        while let Some((offset, character)) = characters.next() {
            let is_joint = is_joint(character)
                && characters.peek().is_some_and(|(_, next): &(usize, char)| next.is_ascii_digit());
            if !character.is_ascii_digit() && !is_joint {
                break;
            }
            end = start + offset + character.len_utf8();
        }
        if digits(&text[start..end]).len() >= FEWEST_DIGITS {
            found.push(start..end);
        }
        at = end;
    }
    found
}

fn is_joint(character: char) -> bool {
    matches!(character, '.' | ',' | ':' | '/' | '-' | '–' | '\'' | '’' | '\u{a0}' | '\u{202f}')
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_by_their_digits() {
        let lost = |source: &'static str, target: &str| -> Vec<&str> {
            missing(source, target).into_iter().map(|range| &source[range]).collect()
        };
        assert_eq!(lost("1,234.50 or 3.14", "1.234,50 oder 3,14"), [""; 0]);
        assert_eq!(lost("In 1987, 12 of them.", "1978'de on ikisi."), ["1987"]);
        assert_eq!(lost("on 2026-11-15 at 14:30.", "am 15.11.2026 um 14.30 Uhr"), ["2026-11-15"]);
        assert_eq!(lost("1 000 000 or 1\u{a0}000", "1 000 000 und 1.000"), [""; 0]);
        assert_eq!(lost("A320-200, 99", ""), ["320-200"]);
        assert_eq!(lost("call 555.", "1a5b5c5"), ["555"]);
    }
}
