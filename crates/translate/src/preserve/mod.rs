//! Preserved text: addresses, `@names`, `#tags`, emoji, code, lines of code, and what the model cannot spell.
//!
//! Found by hand-written rules, in one pass. A word with one letter that the vocabulary lacks is preserved whole, and
//! neighbouring ones together with the text between them (*Привет, мир*).

mod address;
pub(crate) mod alphabet;
mod code;
mod code_line;
mod control;
mod emoji;
pub(crate) mod names;
pub(crate) mod numbers;

use std::ops::Range;

use self::address::address_len;
use self::code::{code_len, is_sign};
use self::code_line::is_code_line;
use self::control::control_len;
use self::emoji::emoji_len;

/// Letters of the longest word that is translated; the longest of German and Turkish have about 80.
const MAX_LETTERS: usize = 100;

/// A span of a sentence that the model does not translate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreservedSpan {
    /// Its bytes in the sentence.
    pub(crate) range: Range<usize>,
    pub(crate) kind: PreservedKind,
    /// The text that it becomes, such as an amount in the form of the target language; none where it stays as it is.
    pub(crate) replacement: Option<String>,
}

impl PreservedSpan {
    /// A span that comes through unchanged.
    pub(crate) fn unchanged(range: Range<usize>, kind: PreservedKind) -> Self {
        Self { range, kind, replacement: None }
    }

    /// The text of a span of `sentence` in the translation.
    pub(crate) fn text<'a>(&'a self, sentence: &'a str) -> &'a str {
        self.replacement.as_deref().unwrap_or(&sentence[self.range.clone()])
    }
}

/// The reason for preserving a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreservedKind {
    /// A web or mail address, `@name`, `#tag`, code, a word longer than those of any language.
    Address,
    /// Emoji and other signs that the model cannot spell.
    Symbol,
    /// Words that the model cannot spell.
    Foreign,
    /// A quantity that the model did not carry over.
    Quantity,
    /// A name that the model did not carry over.
    Name,
}

/// Finds the spans of `text` to preserve, from left to right; `is_known` is true for characters that the model can spell.
pub(crate) fn find(text: &str, is_known: &dyn Fn(char) -> bool) -> Vec<PreservedSpan> {
    if is_code_line(text) {
        return vec![PreservedSpan::unchanged(0..text.len(), PreservedKind::Address)];
    }
    let mut found: Vec<PreservedSpan> = Vec::new();
    let (mut at, mut before) = (0, ' ');
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, kind) = at_start(rest, before, is_known);
        if let Some(kind) = kind {
            add(&mut found, text, PreservedSpan::unchanged(at..at + length, kind));
        }
        before = rest[..length].chars().next_back().unwrap_or(character);
        at += length;
    }
    found
}

/// The length in bytes of the unit that `text` begins with, and its kind if it is preserved.
fn at_start(text: &str, before: char, is_known: &dyn Fn(char) -> bool) -> (usize, Option<PreservedKind>) {
    let emoji = emoji_len(text);
    if emoji > 0 {
        return (emoji, Some(PreservedKind::Symbol));
    }
    let control = control_len(text);
    if control > 0 {
        return (control, Some(PreservedKind::Symbol));
    }
    let is_inside_word = before.is_alphanumeric() || before == '_';
    let address = if is_inside_word { 0 } else { address_len(text) };
    if address > 0 {
        return (address, Some(PreservedKind::Address));
    }
    let code = code_len(text, before);
    if code > 0 {
        return (code, Some(PreservedKind::Address));
    }
    let first = text.chars().next().unwrap_or_default();
    if first.is_alphabetic() {
        let word = run(text, |letter| letter.is_alphabetic() || is_mark(letter));
        if is_too_long(&text[..word]) {
            return (word, Some(PreservedKind::Address));
        }
        let is_foreign = text[..word].chars().any(|letter| letter.is_alphabetic() && !is_known(letter));
        return (word, is_foreign.then_some(PreservedKind::Foreign));
    }
    let is_usual = first.is_ascii_digit() || ".,;:!?'\"()-".contains(first);
    let is_plain = is_usual || first.is_whitespace() || is_known(first);
    let is_preserved = is_private(first) || is_sign(first) || !is_plain;
    (first.len_utf8(), is_preserved.then_some(PreservedKind::Symbol))
}

/// Appends `next`, merged with the last span where both form one run.
fn add(found: &mut Vec<PreservedSpan>, text: &str, next: PreservedSpan) {
    if let Some(last) = found.last_mut() {
        let gap = &text[last.range.end..next.range.start];
        let is_one = match (last.kind, next.kind) {
            (PreservedKind::Foreign, PreservedKind::Foreign) => !gap.contains(char::is_alphanumeric),
            (
                PreservedKind::Foreign | PreservedKind::Symbol,
                PreservedKind::Foreign | PreservedKind::Symbol,
            ) => gap.trim().is_empty(),
            _ => false,
        };
        if is_one {
            last.range.end = next.range.end;
            if next.kind == PreservedKind::Foreign {
                last.kind = PreservedKind::Foreign;
            }
            return;
        }
    }
    found.push(next);
}

/// The length in bytes of the longest beginning of `text` whose characters all satisfy `matches`.
fn run(text: &str, matches: impl Fn(char) -> bool) -> usize {
    text.find(|character| !matches(character)).unwrap_or(text.len())
}

/// True for a word in a script with upper and lower case that is no language.
fn is_too_long(word: &str) -> bool {
    let has_case = |letter: char| letter.is_lowercase() || letter.is_uppercase();
    word.len() > MAX_LETTERS && word.chars().count() > MAX_LETTERS && word.chars().all(has_case)
}

/// True for combining marks and joiners.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{93c}' | '\u{94d}' | '\u{9cd}' | '\u{e31}' | '\u{e34}'..='\u{e3a}'
        | '\u{e47}'..='\u{e4e}' | '\u{200c}' | '\u{200d}' | '\u{3099}' | '\u{309a}')
}

/// True for private-use characters, as the placeholders are.
fn is_private(character: char) -> bool {
    ('\u{e000}'..='\u{f8ff}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preserved(text: &str) -> Vec<&str> {
        // The letters of western Europe.
        let is_known = |character: char| character < '\u{180}' || "“”„’…–€".contains(character);
        find(text, &is_known).into_iter().map(|span| &text[span.range]).collect()
    }

    #[test]
    fn control_characters_and_endless_words_are_preserved() {
        assert_eq!(preserved("a \0 \u{1b}[31mred\u{1b}[0m"), ["\0 \u{1b}[31m", "\u{1b}[0m"]);
        let word = "é".repeat(101);
        assert_eq!(preserved(&format!("a {word} b")), [word.as_str()]);
        assert!(preserved(&format!("{} {}", "x".repeat(100), "ª".repeat(40))).is_empty());
    }

    #[test]
    fn addresses_end_before_punctuation() {
        for (text, expected) in [
            ("See https://example.org/a_(b)?x=1&y=2. Then", "https://example.org/a_(b)?x=1&y=2"),
            ("(http://x.org/ü),", "http://x.org/ü"),
            ("“ftp://x.y/z!”", "ftp://x.y/z"),
            ("www.example.com: now", "www.example.com"),
            ("WWW.EXAMPLE.COM", "WWW.EXAMPLE.COM"),
            ("on polyhead.dev/docs, too", "polyhead.dev/docs"),
            ("localhost.de:8080/x", "localhost.de:8080/x"),
            ("Write to jane.doe+x@mail.example.com.", "jane.doe+x@mail.example.com"),
            ("mailto:a@b.org!", "mailto:a@b.org"),
            ("thanks @anna_k, bye", "@anna_k"),
            ("https://x.com'da", "https://x.com"),
            ("so #MeToo!", "#MeToo"),
            ("say:https://x.org", "https://x.org"),
            ("see bit.ly/abc123 now", "bit.ly/abc123"),
            ("the file %(name)s is", "%(name)s"),
            ("in snake_case.", "snake_case"),
            ("a | b", "|"),
            ("see #tag-with-dash, ok", "#tag-with-dash"),
            ("ask @user-name.", "@user-name"),
            ("die #MeToo-Bewegung", "#MeToo"),
            ("Tom &amp; Anna", "&amp;"),
            ("run it with --save-dev now", "--save-dev"),
            ("open report_v2.pdf, please", "report_v2.pdf"),
        ] {
            assert_eq!(preserved(text), [expected], "{text}");
        }
    }

    #[test]
    fn text_is_not_preserved() {
        for text in [
            "z.B. this e.g. that",
            "I said no.That was it",
            "C# and #1",
            "3 @ 4 a@b",
            "U.S.A.",
            "1.000,50 €",
            "a/b and/or",
            "://",
            "www.",
            "Mr. Çelik’s naïve œuvre…",
            "5:30",
            "..com",
            "Größe: 10 × 20 °C",
            "Tom & Anna; AT&T",
            "a--b, -5 and - x",
            "x@",
            "end.Then",
            "@",
        ] {
            assert_eq!(preserved(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn neighbouring_unknown_words_are_one_span() {
        assert_eq!(preserved("Hi 😀 🇹🇷, Привет, мир! ok"), ["😀 🇹🇷", "Привет, мир"]);
        assert_eq!(preserved("the sign 漢字。"), ["漢字。"]);
        assert_eq!(preserved("from Nguyễn to ☂→x"), ["Nguyễn", "☂→"]);
        assert_eq!(preserved("a \u{e000} b"), ["\u{e000}"]);
        assert_eq!(preserved("Привет мир Tom Привет"), ["Привет мир", "Привет"]);
    }

    proptest::proptest! {
        #[test]
        fn ranges_are_in_order_and_slice_the_text(text in "([a-z@#.:/ ]|😀|漢|\u{200d}|\u{fe0f}|www\\.|http://|\\PC){0,40}") {
            let mut end = 0;
            for span in find(&text, &|character| character.is_ascii()) {
                proptest::prop_assert!(span.range.start >= end && !text[span.range.clone()].trim().is_empty());
                end = span.range.end;
            }
        }
    }
}
