//! Words of a text with the tokens that they are made of.

use std::ops::Range;

use polyhead_text::tokenizer::Tokenizer;

use crate::Result;

/// A word and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenWord {
    /// The word, without spaces around it.
    pub(super) text: String,
    /// Its tokens.
    pub(super) tokens: Range<usize>,
}

/// Divides a text at spaces; writing without spaces (Chinese, Japanese, Thai, …) at its tokens.
pub(super) fn words(tokenizer: &Tokenizer, ids: &[u32]) -> Result<Vec<TokenWord>> {
    let mut words: Vec<TokenWord> = Vec::new();
    let (mut text, mut first) = (String::new(), 0);
    for end in 1..=ids.len() {
        let whole = tokenizer.decode(&ids[..end])?;
        // A character may have several tokens.
        let Some(piece) = whole.strip_prefix(text.as_str()).filter(|piece| !piece.ends_with('\u{fffd}'))
        else {
            continue;
        };
        let tokens = first..end;
        first = end;
        let begins = piece.starts_with(char::is_whitespace)
            || piece.chars().next().is_some_and(is_without_spaces)
            || words.is_empty();
        let trimmed = piece.trim();
        match words.last_mut() {
            Some(word) if !begins || trimmed.is_empty() => {
                word.text.push_str(trimmed);
                word.tokens.end = tokens.end;
            }
            _ if trimmed.is_empty() => {}
            _ => words.push(TokenWord { text: trimmed.to_owned(), tokens }),
        }
        text = whole;
    }
    Ok(words)
}

/// True for a character of a script that is written without spaces.
fn is_without_spaces(character: char) -> bool {
    matches!(character, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}
