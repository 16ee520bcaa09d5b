//! Numbers that must not get lost: those of two digits and more, compared by their digits (*1,234.50* equals *1.234,50*).

use std::ops::Range;

/// Minimum number of digits of a number; smaller ones may be written in words.
const MIN_DIGITS: usize = 2;

/// The numbers of `source` that `target` lacks. Each must occur as often, and without letters beside it where it had
/// none (not *202books*).
pub(crate) fn missing(source: &str, target: &str) -> Vec<Range<usize>> {
    let mut there = numbers(target);
    let is_missing = |range: &Range<usize>| {
        let may_touch = !is_alone(source, range);
        let expected = digits(&source[range.clone()]);
        let is_same = |found: &Range<usize>| {
            digits(&target[found.clone()]) == expected && (may_touch || is_alone(target, found))
        };
        there.iter().position(is_same).map(|place| there.swap_remove(place)).is_none()
    };
    numbers(source).into_iter().filter(is_missing).collect()
}

/// True if no letter touches a number.
pub(crate) fn is_alone(text: &str, number: &Range<usize>) -> bool {
    !text[..number.start].ends_with(char::is_alphabetic)
        && !text[number.end..].starts_with(char::is_alphabetic)
}

/// Finds numbers: digits with single marks between them (`3.14`, `1,234.50`, `2026-11-15`, `14:30`), and thousands between
/// spaces (`1 234`).
pub(crate) fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|digit: char| digit.is_ascii_digit()).map(|start| at + start) {
        let end = start + number_len(&text[start..]);
        if digits(&text[start..end]).len() >= MIN_DIGITS {
            found.push(start..end);
        }
        at = end;
    }
    found
}

/// The length in bytes of the number that `text` begins with.
pub(crate) fn number_len(text: &str) -> usize {
    let mut end = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        let is_joint = is_joint(character)
            && characters.peek().is_some_and(|(_, next): &(usize, char)| next.is_ascii_digit())
            || character == ' ' && is_before_thousands(&text[..end], &text[offset + 1..]);
        if !character.is_ascii_digit() && !is_joint {
            break;
        }
        end = offset + character.len_utf8();
    }
    end
}

/// True if a space between two texts separates thousands: up to three digits before it, three after it.
fn is_before_thousands(before: &str, behind: &str) -> bool {
    let run = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let last = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let is_first = last == before.len() && !before.starts_with('0') && last <= 3;
    (is_first || before.bytes().nth_back(3) == Some(b' ')) && run(behind) == 3
}

fn is_joint(character: char) -> bool {
    matches!(character, '.' | ',' | ':' | '/' | '-' | '–' | '\'' | '’' | '\u{a0}' | '\u{202f}')
}

/// The digits of a text.
pub(crate) fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_their_digits() {
        let lost = |source: &'static str, target: &str| -> Vec<&str> {
            missing(source, target).into_iter().map(|range| &source[range]).collect()
        };
        assert_eq!(lost("1,234.50 or 3.14", "1.234,50 oder 3,14"), [""; 0]);
        assert_eq!(lost("In 1987, 12 of them.", "1978'de on ikisi."), ["1987", "12"]);
        assert_eq!(lost("I have 202 books.", "2022 kitabım var."), ["202"]);
        assert_eq!(lost("I have 202 books.", "Ich habe 202Bücher."), ["202"]);
        assert_eq!(lost("the 1990s, B52", "die 1990er, B52"), [""; 0]);
        assert_eq!(lost("12 and 12 and 7", "12 und 7"), ["12"]);
        assert_eq!(lost("0049 30 1234567", "0049 3044567"), ["30", "1234567"]);
        assert_eq!(lost("Ça coûte 1 234,50 €.", "It costs 1,234.50 €."), [""; 0]);
        assert_eq!(lost("12 345 678 people in 1987 200", "12,345,678 in 1987 and 200"), [""; 0]);
        assert_eq!(lost("on 2026-11-15 at 14:30.", "am 15.11.2026 um 14.30 Uhr"), ["2026-11-15"]);
        assert_eq!(lost("1 000 000 or 1\u{a0}000", "1 000 000 und 1.000"), [""; 0]);
        assert_eq!(lost("A320-200, 99, 5", ""), ["320-200", "99"]);
        assert_eq!(lost("call 555.", "1a5b5c5"), ["555"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(source in "([0-9]|[ .,:–’a]|\\PC){0,30}", target in "([0-9]|[ .,–]){0,20}") {
            let found = missing(&source, &target);
            let in_order = found.windows(2).all(|pair| pair[0].end <= pair[1].start);
            proptest::prop_assert!(in_order && missing(&source, &source).is_empty());
        }
    }
}
