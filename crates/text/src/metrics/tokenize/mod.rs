//! Tokenisation of lines into the words that BLEU counts.
//!
//! `13a` is the tokenisation of NIST's mteval-v13a script, `intl` that of mteval-v14 with its Unicode classes. Both are
//! passes over pairs of adjacent characters that put spaces around punctuation. White space is that of Python's
//! `str.split`, since sacreBLEU's scores depend on it.

mod chinese;
pub(crate) mod tercom;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::tokenizer::sentencepiece::SentencePiece;

/// Tokenisation of BLEU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tokenization {
    /// mteval-v13a: splits at ASCII punctuation, but not inside numbers such as 1,000.5. The default.
    #[default]
    V13a,
    /// mteval-v14: splits at punctuation and symbols of every script.
    International,
    /// Chinese characters are words, the rest is split as by 13a.
    Chinese,
    /// Every character is a word.
    Characters,
    /// The pieces of a SentencePiece model, as in spBLEU.
    SentencePiece(PieceTokenization),
    /// Splits at white space only, for tokenised text.
    None,
}

/// A SentencePiece model that splits lines into pieces.
#[derive(Debug, Clone)]
pub struct PieceTokenization {
    /// Name in signatures.
    pub name: String,
    /// The model.
    pub model: Arc<SentencePiece>,
}

impl PartialEq for PieceTokenization {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.model, &other.model)
    }
}

impl Eq for PieceTokenization {}

impl Tokenization {
    /// The tokenisations that need no model.
    pub const BUILT_IN: [Self; 5] =
        [Self::V13a, Self::International, Self::Chinese, Self::Characters, Self::None];

    /// Name in signatures.
    pub fn name(&self) -> &str {
        match self {
            Self::V13a => "13a",
            Self::International => "intl",
            Self::Chinese => "zh",
            Self::Characters => "char",
            Self::SentencePiece(pieces) => &pieces.name,
            Self::None => "none",
        }
    }

    /// `line` with white space between its words.
    pub fn tokenize<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let line = trim_end(line);
        match self {
            Self::V13a => v13a(line).into(),
            Self::International => international(line).into(),
            Self::Chinese => western(&around(line.trim_start_matches(is_space), chinese::is_chinese)).into(),
            Self::Characters => around(line, |_| true).into(),
            Self::SentencePiece(pieces) => pieces.model.encode(line).pieces.join(" ").into(),
            Self::None => line.into(),
        }
    }
}

/// True for white space in Python's sense: Unicode's, and the four ASCII separators U+001C to U+001F.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The words of `text` between white space.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `text` without trailing white space.
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

fn v13a(line: &str) -> String {
    let line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    western(&format!(" {} ", unescape(&line)))
}

/// Replaces the four XML entities of old test sets, in the order of the NIST script.
fn unescape(line: &str) -> Cow<'_, str> {
    if !line.contains('&') {
        return line.into();
    }
    line.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").into()
}

/// The rules of 13a for Western languages; the normalisation of TER has a step between the two halves.
fn western(line: &str) -> String {
    numbers(&around(line, is_western_mark))
}

/// ASCII punctuation and symbols except `'`, `,`, `-` and `.`.
fn is_western_mark(c: char) -> bool {
    matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

/// Splits off full stops and commas unless both neighbours are digits, and a dash after a digit.
fn numbers(line: &str) -> String {
    let is_stop = |c: char| c == '.' || c == ',';
    let line = pairs(line, |a, b| !a.is_ascii_digit() && is_stop(b), ["", " ", " "]);
    let line = pairs(&line, |a, b| is_stop(a) && !b.is_ascii_digit(), [" ", " ", ""]);
    pairs(&line, |a, b| a.is_ascii_digit() && b == '-', ["", " ", " "])
}

fn international(line: &str) -> String {
    let line = pairs(line, |a, b| !a.is_numeric() && is_punctuation(b), ["", " ", " "]);
    let line = pairs(&line, |a, b| is_punctuation(a) && !b.is_numeric(), [" ", " ", ""]);
    around(&line, is_symbol)
}

/// Unicode general category P.
fn is_punctuation(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\p{P}").expect("a valid class"));
    if c.is_ascii() { c.is_ascii_punctuation() && !is_ascii_symbol(c) } else { holds(&CLASS, c) }
}

/// Unicode general category S.
fn is_symbol(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\p{S}").expect("a valid class"));
    if c.is_ascii() { is_ascii_symbol(c) } else { holds(&CLASS, c) }
}

fn is_ascii_symbol(c: char) -> bool {
    matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
}

fn holds(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Puts a space on both sides of every character in `class`.
fn around(line: &str, class: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    for c in line.chars() {
        if class(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    out
}

/// Inserts `[before, between, after]` around two adjacent characters for which `is_pair` holds. A character belongs to
/// at most one pair, from left to right, as in the substitution of a regular expression.
fn pairs(line: &str, is_pair: impl Fn(char, char) -> bool, [before, between, after]: [&str; 3]) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    let mut chars = line.chars().peekable();
    while let Some(first) = chars.next() {
        if let Some(second) = chars.next_if(|&second| is_pair(first, second)) {
            out.push_str(before);
            out.push(first);
            out.push_str(between);
            out.push(second);
            out.push_str(after);
        } else {
            out.push(first);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(tokenization: &Tokenization, line: &str) -> Vec<String> {
        words(&tokenization.tokenize(line)).map(Into::into).collect()
    }

    #[test]
    fn numbers_are_kept_whole_and_stops_split_off() {
        assert_eq!(
            tokens(&Tokenization::V13a, "It's 1,000.5 (or 3-4), &quot;A&amp;B&quot;."),
            ["It's", "1,000.5", "(", "or", "3", "-", "4", ")", ",", "\"", "A", "&", "B", "\"", "."]
        );
    }

    #[test]
    fn international_knows_other_scripts() {
        assert_eq!(
            tokens(&Tokenization::International, "„Gut“ – 5 €, 1,5¿ 好。 in 1999."),
            ["„", "Gut", "“", "–", "5", "€", ",", "1,5", "¿", "好", "。", "in", "1999."]
        );
    }

    #[test]
    fn ascii_separators_are_white_space() {
        assert_eq!(
            words("a\u{1c}b\u{a0}c\u{3000}d\u{200b}e").collect::<Vec<_>>(),
            ["a", "b", "c", "d\u{200b}e"]
        );
        assert_eq!(trim_end("a \u{1f}\t"), "a");
    }
}
