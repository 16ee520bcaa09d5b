//! Telephone numbers: `+49 30 1234567`, `(555) 123-4567`, `555-123-4567`, `0212 555 12 34`. They come through as they are.

/// Digits of a telephone number.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// Digits of a number that begins with 0 and has no other sign of a telephone number.
const MIN_DIGITS_AFTER_ZERO: usize = 9;

/// The length in bytes of the telephone number that `text` begins with; 0 for none.
pub(super) fn phone_len(text: &str) -> usize {
    let is_part = |letter: &char| letter.is_ascii_digit() || "+()-./ \u{a0}".contains(*letter);
    let limit = 2 * DIGITS.end();
    let run: usize = text.chars().take(limit).take_while(is_part).map(char::len_utf8).sum();
    let mut end = text[..run].rfind(|digit: char| digit.is_ascii_digit()).map_or(0, |at| at + 1);
    // Two marks in a row end it, except after a bracket.
    let marks = |pair: &[u8]| pair.iter().all(|byte| !byte.is_ascii_digit());
    for (at, pair) in text.as_bytes()[..end].windows(2).enumerate() {
        if at > 0 && marks(pair) && !matches!(pair, b") " | b" (" | b")-" | b"\xc2\xa0") {
            end = at;
            break;
        }
    }
    let number = &text[..end];
    let groups: Vec<&str> =
        number.split(|mark: char| !mark.is_ascii_digit()).filter(|group| !group.is_empty()).collect();
    let n_digits: usize = groups.iter().map(|group| group.len()).sum();
    let is_ended = !text[end..].starts_with(char::is_alphanumeric);
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_phone = match number.chars().next() {
        Some('+') => number[1..].starts_with(|digit: char| digit.is_ascii_digit()),
        Some('(') => number.find(')').is_some_and(|close| (3..=6).contains(&close)),
        Some('0') => {
            groups.len() > 1 && n_digits >= MIN_DIGITS_AFTER_ZERO && lengths[0] > 1 && !number.contains('.')
        }
        Some(_) => {
            lengths == [3, 3, 4] && number.bytes().filter(|byte| matches!(byte, b'-' | b'.')).count() == 2
        }
        None => false,
    };
    if is_phone && is_ended && DIGITS.contains(&n_digits) { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telephone_numbers_are_whole() {
        for phone in [
            "+49 30 1234567",
            "+1-555-123-4567",
            "+90 (212) 555 12 34",
            "(555) 123-4567",
            "555-123-4567",
            "0212 555 12 34",
            "030/1234567",
            "0049 30 1234567",
            "06 12 34 56 78",
        ] {
            for after in ["", ".", ", or", " now", ")"] {
                assert_eq!(phone_len(&format!("{phone}{after}")), phone.len(), "{phone}{after}");
            }
        }
        for text in [
            "1,234,567",
            "1 234 567",
            "2024-12-31",
            "10-20",
            "(1) 2",
            "0.12345678",
            "+5",
            "007",
            "",
            "1234567",
        ] {
            assert_eq!(phone_len(text), 0, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9]|[-+()./ ]|\\PC){0,30}") {
            proptest::prop_assert!(text.is_char_boundary(phone_len(&text)));
        }
    }
}
