//! Safe display of token text: nothing in it can move, hide or colour its surroundings.
//!
//! Placeholders of preserved text become `‹0›` to `‹3›`. Control characters become control pictures (`␀`, `␛`); zero-width and bidirectional control characters become their code
//! points (`‹202E›`); a combining mark without a base letter gets a dotted circle. Bidirectional isolation of right-to-left
//! words is left to the caller.

/// `text` with hidden characters made visible.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='\x1f' => out.push(picture(character)),
            '\x7f' => out.push('␡'),
            '\u{e000}'..='\u{e003}' => out.push_str(&format!("‹{}›", character as u32 - 0xe000)),
            _ if is_hidden(character) => out.push_str(&format!("‹{:04X}›", character as u32)),
            _ if out.is_empty() && is_combining(character) => out.extend(['◌', character]),
            _ => out.push(character),
        }
    }
    out
}

/// The control picture of a control character, from U+2400.
fn picture(control: char) -> char {
    char::from_u32(0x2400 + control as u32).unwrap_or('\u{fffd}')
}

/// True for control characters beyond ASCII, zero-width and bidirectional marks, Unicode line ends, variation selectors, tags.
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

/// True in the common blocks of combining marks.
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
    fn hidden_characters_become_visible() {
        assert_eq!(visible("Öğretmen ‘ß’ 漢 →"), "Öğretmen ‘ß’ 漢 →");
        assert_eq!(visible("a\u{e000}\u{e003}"), "a‹0›‹3›");
        assert_eq!(visible("\u{1b}[31m\0\u{7f}\u{9b}"), "␛[31m␀␡‹009B›");
        assert_eq!(visible("a\u{202e}b\u{200d}"), "a‹202E›b‹200D›");
        assert_eq!([visible("\u{301}"), visible("e\u{301}")], ["◌\u{301}", "e\u{301}"]);
    }
}
