//! Emoji sequences: skin tones, ZWJ sequences (U+200D), flags, keycaps (Unicode Technical Standard 51).

const JOINER: char = '\u{200d}';
/// Variation selector 16: emoji presentation of the character before it.
const EMOJI_PRESENTATION: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// The length in bytes of the emoji sequence that `text` begins with; 0 for none.
pub(super) fn emoji_len(text: &str) -> usize {
    let mut end = base_len(text);
    if end == 0 {
        return 0;
    }
    loop {
        let rest = &text[end..];
        let Some(next) = rest.chars().next() else { return end };
        let joined = if next == JOINER { base_len(&rest[JOINER.len_utf8()..]) } else { 0 };
        if joined > 0 {
            end += JOINER.len_utf8() + joined;
        } else if is_modifier(next) {
            end += next.len_utf8();
        } else {
            return end;
        }
    }
}

/// The length in bytes of one emoji without modifiers.
fn base_len(text: &str) -> usize {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return 0 };
    let next = characters.next();
    let length = first.len_utf8();
    if first.is_ascii_digit() || matches!(first, '#' | '*') {
        let follows = if next == Some(EMOJI_PRESENTATION) { characters.next() } else { next };
        return if follows == Some(KEYCAP) { length } else { 0 };
    }
    if is_flag_half(first) {
        return length + next.filter(|next| is_flag_half(*next)).map_or(0, char::len_utf8);
    }
    let is_presented = !first.is_ascii() && !first.is_whitespace() && next == Some(EMOJI_PRESENTATION);
    if is_picture(first) || is_presented { length } else { 0 }
}

fn is_flag_half(character: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&character)
}

/// True for modifiers of the emoji before them: presentation, skin tone, keycap, a tag of a regional flag.
fn is_modifier(character: char) -> bool {
    matches!(character, '\u{fe0e}' | EMOJI_PRESENTATION | KEYCAP | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

fn is_picture(character: char) -> bool {
    matches!(character,
        '\u{1f000}'..='\u{1faff}'
        | '\u{2600}'..='\u{27bf}'
        | '\u{231a}' | '\u{231b}' | '\u{2328}' | '\u{23cf}' | '\u{23e9}'..='\u{23f3}' | '\u{23f8}'..='\u{23fa}'
        | '\u{2b05}'..='\u{2b07}' | '\u{2b1b}' | '\u{2b1c}' | '\u{2b50}' | '\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emoji_sequence_is_whole() {
        for emoji in ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇹🇷", "1️⃣", "#⃣", "❤️", "©️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩🏽‍🚀", "☀", "✈️"]
        {
            assert_eq!(emoji_len(&format!("{emoji}x")), emoji.len(), "{emoji}");
            assert_eq!(emoji_len(emoji), emoji.len(), "{emoji}");
        }
        for text in ["", "a😀", "1", "12", "#x", "©", "é", "漢", "→", "1\u{fe0f}"] {
            assert_eq!(emoji_len(text), 0, "{text}");
        }
        assert_eq!(emoji_len("🇹🇷🇩🇪"), "🇹🇷".len());
    }
}
