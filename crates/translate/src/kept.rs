//! What a translation keeps as it is: addresses, names with `@`, tags with `#`, emoji, code, and what the model cannot spell.
//!
//! Found by hand-written rules, in one pass. A word with one letter that the model has no piece for is kept whole, and
//! such words are kept together with what stands between them (*Привет, мир*).

use std::ops::Range;

use crate::code::{code_len, is_sign};
use crate::emoji::emoji_len;

/// What is kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind,
}

/// What kind of thing is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A web or mail address, `@name`, `#tag`, code.
    Address,
    /// Emoji and other signs that the model cannot spell.
    Symbol,
    /// Words that the model cannot spell.
    Foreign,
    /// A number that the model did not carry over.
    Number,
}

/// Ends of names of machines without `http://` or `www.` before them; none that is a common word.
const DOMAINS: &[&str] = &[
    "ai", "app", "at", "au", "biz", "br", "ca", "ch", "cn", "com", "de", "dev", "edu", "es", "eu", "fr",
    "gov", "info", "int", "io", "jp", "mil", "net", "nl", "online", "org", "pl", "ru", "se", "shop", "site",
    "tr", "tv", "uk", "us", "xyz",
];

/// What is kept of `text`, from left to right; `is_known` says whether the model can spell a character.
pub(crate) fn find(text: &str, is_known: &dyn Fn(char) -> bool) -> Vec<Kept> {
    let mut found: Vec<Kept> = Vec::new();
    let (mut at, mut before) = (0, ' ');
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, kind) = at_start(rest, before, is_known);
        if let Some(kind) = kind {
            add(&mut found, text, Kept { range: at..at + length, kind });
        }
        before = rest[..length].chars().next_back().unwrap_or(character);
        at += length;
    }
    found
}

/// The bytes that `text` begins with and that belong together, and whether they are kept.
fn at_start(text: &str, before: char, is_known: &dyn Fn(char) -> bool) -> (usize, Option<Kind>) {
    let emoji = emoji_len(text);
    if emoji > 0 {
        return (emoji, Some(Kind::Symbol));
    }
    let is_inside_word = before.is_alphanumeric() || before == '_';
    let address = if is_inside_word { 0 } else { address_len(text) };
    if address > 0 {
        return (address, Some(Kind::Address));
    }
    let code = code_len(text, before);
    if code > 0 {
        return (code, Some(Kind::Address));
    }
    let first = text.chars().next().unwrap_or_default();
    if first.is_alphabetic() {
        let word = run(text, |letter| letter.is_alphabetic() || is_mark(letter));
        let is_foreign = text[..word].chars().any(|letter| letter.is_alphabetic() && !is_known(letter));
        return (word, is_foreign.then_some(Kind::Foreign));
    }
    let is_usual = first.is_ascii_digit() || ".,;:!?'\"()-".contains(first);
    let is_plain = is_usual || first.is_whitespace() || first.is_control() || is_known(first);
    let is_kept = is_private(first) || is_sign(first) || !is_plain;
    (first.len_utf8(), is_kept.then_some(Kind::Symbol))
}

/// Adds `next`, to the last one where both are one run.
fn add(found: &mut Vec<Kept>, text: &str, next: Kept) {
    if let Some(last) = found.last_mut() {
        let gap = &text[last.range.end..next.range.start];
        let is_one = match (last.kind, next.kind) {
            (Kind::Foreign, Kind::Foreign) => !gap.contains(char::is_alphanumeric),
            (Kind::Foreign | Kind::Symbol, Kind::Foreign | Kind::Symbol) => gap.trim().is_empty(),
            _ => false,
        };
        if is_one {
            last.range.end = next.range.end;
            if next.kind == Kind::Foreign {
                last.kind = Kind::Foreign;
            }
            return;
        }
    }
    found.push(next);
}

/// Bytes of the longest address that is kept whole.
const LONGEST_ADDRESS: usize = 4096;

/// The bytes of the address that `text` begins with; 0 if it begins with none.
fn address_len(text: &str) -> usize {
    // A word without end would be read again from each of its letters.
    let end = text.char_indices().find(|(at, letter)| letter.is_whitespace() || *at >= LONGEST_ADDRESS);
    let word = &text[..end.map_or(text.len(), |(at, _)| at)];
    if let Some(rest) = word.strip_prefix('@') {
        let name = run(rest, is_name);
        return if name == 0 { 0 } else { 1 + rest[..name].trim_end_matches('_').len() };
    }
    if let Some(rest) = word.strip_prefix('#') {
        let tag = run(rest, is_name);
        return if rest[..tag].contains(char::is_alphabetic) { 1 + tag } else { 0 };
    }
    if !word.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return 0;
    }
    let scheme = run(word, |character| character.is_ascii_alphanumeric() || "+-".contains(character));
    if word[scheme..].starts_with("://") && word[scheme + 3..].starts_with(char::is_alphanumeric) {
        return url_len(word);
    }
    if let Some(rest) = word.strip_prefix("mailto:") {
        return mail_len(rest).map_or(0, |length| length + "mailto:".len());
    }
    mail_len(word).or_else(|| machine_len(word)).unwrap_or(0)
}

/// `name@example.org` at the beginning of a word.
fn mail_len(word: &str) -> Option<usize> {
    let local = run(word, |character| character.is_ascii_alphanumeric() || "._%+-".contains(character));
    let rest = word[local..].strip_prefix('@')?;
    let domain = domain(rest);
    let (name, end) = domain.rsplit_once('.')?;
    let is_domain =
        !name.is_empty() && end.len() >= 2 && end.chars().all(|letter| letter.is_ascii_alphabetic());
    is_domain.then_some(local + 1 + domain.len())
}

/// `www.example.org/page` or `example.org:80` at the beginning of a word.
fn machine_len(word: &str) -> Option<usize> {
    let domain = domain(word);
    let (name, end) = domain.rsplit_once('.')?;
    let is_www = domain.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www.")) && domain.len() > 4;
    let rest = &word[domain.len()..];
    // With a page behind it any name will do: `bit.ly/abc`.
    let has_page = rest.strip_prefix('/').is_some_and(|page| page.starts_with(char::is_alphanumeric))
        && name.len() >= 2
        && end.len() >= 2
        && end.chars().all(|letter| letter.is_ascii_lowercase());
    if name.is_empty() || !(is_www || has_page || DOMAINS.contains(&end)) {
        return None;
    }
    let port = rest.strip_prefix(':').map_or(0, |rest| run(rest, |digit| digit.is_ascii_digit()));
    let has_path = rest.starts_with('/') || port > 0;
    let is_ended = !rest.starts_with(|next: char| next.is_alphanumeric() || "_@".contains(next));
    is_ended.then(|| if has_path { url_len(word) } else { domain.len() })
}

/// Letters, digits and hyphens between single full stops.
fn domain(word: &str) -> &str {
    let length = run(word, |character| character.is_ascii_alphanumeric() || "-.".contains(character));
    let domain = word[..length].trim_end_matches(['.', '-']);
    domain.find("..").map_or(domain, |end| &domain[..end])
}

/// What of a word belongs to the address that it begins with: no quotes, no marks of the sentence behind it.
fn url_len(word: &str) -> usize {
    let end = run(word, |character| !"\"<>“”„«»‹›`{}|\\^'’‘…".contains(character));
    let mut url = &word[..end];
    loop {
        let shorter = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '*']);
        let is_open = |open: char, close: char| {
            shorter.ends_with(close) && shorter.matches(close).count() > shorter.matches(open).count()
        };
        let shorter =
            if is_open('(', ')') || is_open('[', ']') { &shorter[..shorter.len() - 1] } else { shorter };
        if shorter.len() == url.len() {
            return url.len();
        }
        url = shorter;
    }
}

/// The bytes of the longest beginning whose characters all are so.
fn run(text: &str, is_so: impl Fn(char) -> bool) -> usize {
    text.find(|character| !is_so(character)).unwrap_or(text.len())
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Stands above or below a letter, or joins letters.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{93c}' | '\u{94d}' | '\u{9cd}' | '\u{e31}' | '\u{e34}'..='\u{e3a}'
        | '\u{e47}'..='\u{e4e}' | '\u{200c}' | '\u{200d}' | '\u{3099}' | '\u{309a}')
}

/// Has no meaning of its own, as the placeholders.
fn is_private(character: char) -> bool {
    ('\u{e000}'..='\u{f8ff}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Vec<&str> {
        // The letters of western Europe.
        let is_known = |character: char| character < '\u{180}' || "“”„’…–€".contains(character);
        find(text, &is_known).into_iter().map(|kept| &text[kept.range]).collect()
    }

    #[test]
    fn addresses_end_where_they_end() {
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
        ] {
            assert_eq!(kept(text), [expected], "{text}");
        }
    }

    #[test]
    fn text_is_not_kept() {
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
            "x@",
            "end.Then",
            "@",
        ] {
            assert_eq!(kept(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_spelled_is_kept_together() {
        assert_eq!(kept("Hi 😀 🇹🇷, Привет, мир! ok"), ["😀 🇹🇷", "Привет, мир"]);
        assert_eq!(kept("the sign 漢字。"), ["漢字。"]);
        assert_eq!(kept("from Nguyễn to ☂→x"), ["Nguyễn", "☂→"]);
        assert_eq!(kept("a \u{e000} b"), ["\u{e000}"]);
        assert_eq!(kept("Привет мир Tom Привет"), ["Привет мир", "Привет"]);
    }

    proptest::proptest! {
        #[test]
        fn ranges_are_in_order_and_slice_the_text(text in "([a-z@#.:/ ]|😀|漢|\u{200d}|\u{fe0f}|www\\.|http://|\\PC){0,40}") {
            let mut end = 0;
            for kept in find(&text, &|character| character.is_ascii()) {
                proptest::prop_assert!(kept.range.start >= end && !text[kept.range.clone()].trim().is_empty());
                end = kept.range.end;
            }
        }
    }
}
