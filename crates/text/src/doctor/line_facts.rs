//! One line of one side: its size, and the characters that cause problems.

/// Size and unusual characters of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineFacts {
    /// Characters; bytes where the line is not UTF-8.
    pub(crate) chars: usize,
    /// Words between spaces.
    pub(crate) words: usize,
    /// True if the line is empty or white space.
    pub(crate) blank: bool,
    /// Index of the first invalid byte, from 0.
    pub(crate) invalid_utf8: Option<usize>,
    /// First control character and its byte index.
    pub(crate) control: Option<(usize, char)>,
    /// First character that other tools read as a line end, and its byte index.
    pub(crate) line_break: Option<(usize, char)>,
}

impl LineFacts {
    /// Scans a line.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let words = words(bytes);
        let ascii = bytes.is_ascii();
        let plain = !has_ascii_control(bytes);
        let mut facts = Self { chars: bytes.len(), words, blank: words == 0, ..Self::default() };
        if ascii && plain {
            return facts;
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                facts.invalid_utf8 = Some(error.valid_up_to());
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
        };
        if facts.invalid_utf8.is_none() {
            facts.chars = bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
            facts.blank = words == 0 || (!ascii && text.trim().is_empty());
        }
        if !plain || has_unusual_lead(bytes) {
            facts.find_unusual_characters(text);
        }
        facts
    }

    fn find_unusual_characters(&mut self, text: &str) {
        for (at, c) in text.char_indices() {
            match c {
                '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                    self.line_break = self.line_break.or(Some((at, c)));
                }
                '\t' => {}
                '\u{feff}' => self.control = self.control.or(Some((at, c))),
                c if c.is_control() => self.control = self.control.or(Some((at, c))),
                _ => {}
            }
        }
    }
}

fn words(bytes: &[u8]) -> usize {
    let space = |byte: u8| byte == b' ' || byte == b'\t';
    let starts = bytes.windows(2).filter(|pair| space(pair[0]) && !space(pair[1])).count();
    starts + usize::from(bytes.first().is_some_and(|&byte| !space(byte)))
}

/// True if there is an ASCII control character other than tab. Without an early exit, so that it is vectorised.
fn has_ascii_control(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, &byte| found | matches!(byte, 0..=0x08 | 0x0a..=0x1f | 0x7f))
}

/// True if a byte can lead U+0080–U+00BF, U+2000–U+2FFF or U+F000–U+FFFF, the ranges of all unusual characters.
fn has_unusual_lead(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, &byte| found | matches!(byte, 0xc2 | 0xe2 | 0xef))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_characters_and_words() {
        let facts = LineFacts::of("  Kedi fareyi\tyedi — œ ".as_bytes());
        assert_eq!((facts.chars, facts.words, facts.blank), (23, 5, false));
        assert!(
            LineFacts::of(b"").blank
                && LineFacts::of(b" \t ").blank
                && LineFacts::of("\u{a0}\u{3000}".as_bytes()).blank
        );
    }

    #[test]
    fn unusual_characters_are_located() {
        assert_eq!(LineFacts::of(b"ab\0c").control, Some((2, '\0')));
        assert_eq!(LineFacts::of("é\u{9c}".as_bytes()).control, Some((2, '\u{9c}')));
        assert_eq!(LineFacts::of("\u{feff}a".as_bytes()).control, Some((0, '\u{feff}')));
        assert_eq!(LineFacts::of(b"a\rb").line_break, Some((1, '\r')));
        assert_eq!(LineFacts::of("a\u{2028}b\u{85}".as_bytes()).line_break, Some((1, '\u{2028}')));
        assert_eq!(
            LineFacts::of("plain é — 🙂 “x”".as_bytes()),
            LineFacts { chars: 15, words: 5, ..LineFacts::default() }
        );
        assert_eq!(LineFacts::of(b"ab\xff\0").invalid_utf8, Some(2));
    }
}
