//! Text of tokens as it may be shown: nothing in it can move, hide or colour what stands beside it.
//!
//! Control characters become their pictures (`␀`, `␛`); marks without width or that turn the direction of writing become
//! their code points (`‹202E›`); a combining mark without a letter before it gets a circle to stand on. Isolation of words
//! that are written from right to left is left to whoever draws them, one by one.

/// `text` with everything visible.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='\x1f' => out.push(picture(character)),
            '\x7f' => out.push('␡'),
            _ if is_hidden(character) => out.push_str(&format!("‹{:04X}›", character as u32)),
            _ if out.is_empty() && is_combining(character) => out.extend(['◌', character]),
            _ => out.push(character),
        }
    }
    out
}

/// The picture of a control character, U+2400 and on.
fn picture(control: char) -> char {
    char::from_u32(0x2400 + control as u32).unwrap_or('\u{fffd}')
}

/// Controls beyond ASCII, marks without width, marks of direction, odd line ends, variation selectors and tags.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'..='\u{ffff}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The usual blocks of combining marks.
fn is_combining(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{64b}'..='\u{65f}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_hidden() {
        assert_eq!(visible("Öğretmen ‘ß’ 漢 →"), "Öğretmen ‘ß’ 漢 →");
        assert_eq!(visible("\u{1b}[31m\0\u{7f}\u{9b}"), "␛[31m␀␡‹009B›");
        assert_eq!(visible("a\u{202e}b\u{200d}"), "a‹202E›b‹200D›");
        assert_eq!([visible("\u{301}"), visible("e\u{301}")], ["◌\u{301}", "e\u{301}"]);
    }
}
