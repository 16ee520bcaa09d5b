//! Control characters and the escape sequences of terminals, which models leave out.

/// The length in bytes of the control character or escape sequence that `text` begins with; 0 for none, and for white
/// space.
pub(super) fn control_len(text: &str) -> usize {
    let first = text.chars().next().filter(|first| first.is_control() && !first.is_whitespace());
    let Some(first) = first else { return 0 };
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return first.len_utf8() };
    // Parameters, intermediate bytes and one final byte (ECMA-48, 5.4).
    let parameters = rest.bytes().take_while(|byte| (0x20..=0x3f).contains(byte)).count();
    let has_final = rest.as_bytes().get(parameters).is_some_and(|byte| (0x40..=0x7e).contains(byte));
    if has_final { "\u{1b}[".len() + parameters + 1 } else { first.len_utf8() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_whole() {
        for (text, expected) in [
            ("\0a", 1),
            ("\u{85}", 0),
            ("\t", 0),
            ("a\0", 0),
            ("\u{9f}x", 2),
            ("\u{1b}[31mred", 5),
            ("\u{1b}[0;1mbold", 6),
            ("\u{1b}[ä", 1),
            ("\u{1b}", 1),
            ("", 0),
        ] {
            assert_eq!(control_len(text), expected, "{text:?}");
        }
    }
}
