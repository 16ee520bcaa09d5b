//! The tokens of a page: tags, texts, comments and raw elements. One after the other they are the page, byte for byte.
//!
//! Errors that a browser would correct are left as they are. Time is linear in the length of any page: a search that found
//! nothing is not repeated.

use std::ops::Range;

use super::names;

/// A part of a page.
#[derive(Debug, Clone)]
pub(crate) struct HtmlToken {
    pub(crate) kind: TokenKind,
    /// Its bytes.
    pub(crate) range: Range<usize>,
}

/// The kind of a token; names are in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Text,
    Open {
        name: String,
        /// True if it ends with `/>`.
        is_closed: bool,
    },
    Close {
        name: String,
    },
    /// An element whose content is not markup, with its tags.
    Raw {
        name: String,
    },
    /// A comment, a declaration, a processing instruction.
    Markup,
}

/// The tokens of a page.
pub(crate) fn tokens(page: &str) -> Vec<HtmlToken> {
    let mut reader = Reader { page, at: 0, text_start: 0, found: Vec::new(), missing: Vec::new() };
    while let Some(offset) = page[reader.at..].find('<') {
        reader.at += offset;
        match reader.markup() {
            Some((kind, end)) => reader.push(kind, end),
            None => reader.at += 1,
        }
    }
    reader.at = page.len();
    reader.end_text();
    reader.found
}

struct Reader<'a> {
    page: &'a str,
    at: usize,
    /// Byte where the text before `at` begins.
    text_start: usize,
    found: Vec<HtmlToken>,
    /// Strings that do not occur in the rest of the page.
    missing: Vec<&'static str>,
}

impl Reader<'_> {
    fn end_text(&mut self) {
        if self.text_start < self.at {
            self.found.push(HtmlToken { kind: TokenKind::Text, range: self.text_start..self.at });
        }
        self.text_start = self.at;
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        self.end_text();
        let title = matches!(&kind, TokenKind::Open { name, is_closed: false } if name == "title");
        self.found.push(HtmlToken { kind, range: self.at..end });
        (self.at, self.text_start) = (end, end);
        if title {
            // Its content is text, even if it looks like markup.
            self.at = self.end_of_raw("title", end).map_or(self.page.len(), |(close, _)| close);
            self.end_text();
        }
    }

    /// The markup that begins with `<` here, and its end; none for text.
    fn markup(&mut self) -> Option<(TokenKind, usize)> {
        let rest = &self.page[self.at..];
        let second = rest.as_bytes().get(1)?;
        match second {
            b'!' if rest.starts_with("<!--") => Some((TokenKind::Markup, self.end_of_comment())),
            b'!' if rest.starts_with("<![CDATA[") => self.up_to("]]>").or_else(|| self.up_to(">")),
            b'?' => self.up_to("?>").or_else(|| self.up_to(">")),
            b'!' => self.up_to(">"),
            b'/' => match rest.as_bytes().get(2)? {
                letter if letter.is_ascii_alphabetic() => {
                    let (name, end, _) = self.tag(2)?;
                    Some((TokenKind::Close { name }, end))
                }
                _ => self.up_to(">"),
            },
            letter if letter.is_ascii_alphabetic() => {
                let (name, end, is_closed) = self.tag(1)?;
                if is_closed || !names::is_raw(&name) {
                    return Some((TokenKind::Open { name, is_closed }, end));
                }
                let end = self.end_of_raw(&name, end).map_or(self.page.len(), |(_, end)| end);
                Some((TokenKind::Raw { name }, end))
            }
            _ => None,
        }
    }

    /// Markup that ends with `mark`.
    fn up_to(&mut self, mark: &'static str) -> Option<(TokenKind, usize)> {
        Some((TokenKind::Markup, self.find(mark, self.at + 2)? + mark.len()))
    }

    fn end_of_comment(&mut self) -> usize {
        let content = self.at + "<!--".len();
        let rest = &self.page[content..];
        if let Some(short) = [">", "->"].into_iter().find(|short| rest.starts_with(short)) {
            return content + short.len();
        }
        self.find("-->", content).map_or(self.page.len(), |end| end + "-->".len())
    }

    fn find(&mut self, mark: &'static str, from: usize) -> Option<usize> {
        if self.missing.contains(&mark) {
            return None;
        }
        let found = self.page.get(from..).and_then(|rest| rest.find(mark)).map(|offset| from + offset);
        if found.is_none() {
            self.missing.push(mark);
        }
        found
    }

    /// The name, the end and the `/>` of a tag that begins here, `skip` bytes before its name.
    fn tag(&mut self, skip: usize) -> Option<(String, usize, bool)> {
        // A less-than sign is not a tag.
        self.find(">", self.at)?;
        let bytes = self.page.as_bytes();
        let mut at = self.at + skip;
        let is_name = |byte: u8| !byte.is_ascii_whitespace() && byte != b'/' && byte != b'>';
        at += bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
        let name = self.page[self.at + skip..at].to_ascii_lowercase();
        let mut is_closed = false;
        let mut state = AttributeState::None;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match (state, byte) {
                (AttributeState::Quoted(quote), _) if byte == quote => state = AttributeState::None,
                (AttributeState::Quoted(_), _) => {}
                (_, b'>') => return Some((name, at, is_closed)),
                (AttributeState::Expected, b'"' | b'\'') => state = AttributeState::Quoted(byte),
                (AttributeState::Expected, _) if byte.is_ascii_whitespace() => {}
                (AttributeState::Expected, _) => state = AttributeState::Bare,
                (AttributeState::Bare, _) if byte.is_ascii_whitespace() => state = AttributeState::None,
                (AttributeState::None, b'=') => state = AttributeState::Expected,
                _ => {}
            }
            is_closed = byte == b'/' && state == AttributeState::None;
        }
        // A quote is open: the rest of the page belongs to the attribute.
        Some((name, self.page.len(), false))
    }

    /// The first byte and the end of the closing tag of a raw element.
    fn end_of_raw(&self, name: &str, from: usize) -> Option<(usize, usize)> {
        let bytes = self.page.as_bytes();
        let mut at = from;
        loop {
            at += self.page[at..].find("</")?;
            let end = at + 2 + name.len();
            let is_name =
                bytes.get(at + 2..end).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
            let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
            if is_name && bytes.get(end).is_none_or(ends) {
                let length = self.page[end..].find('>').map_or(self.page.len() - end, |offset| offset + 1);
                return Some((at, end + length));
            }
            at += 2;
        }
    }
}

/// The state of the reader in an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeState {
    None,
    /// Behind `=`.
    Expected,
    Bare,
    Quoted(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(page: &str) -> Vec<&str> {
        let tokens = tokens(page);
        let parts: Vec<&str> = tokens.iter().map(|token| &page[token.range.clone()]).collect();
        assert_eq!(parts.concat(), page);
        parts
    }

    #[test]
    fn tags_end_behind_their_attributes() {
        assert_eq!(cut("a<b c='>' d=\">\">e</b >f"), ["a", "<b c='>' d=\">\">", "e", "</b >", "f"]);
        assert_eq!(cut("1 < 2 <3 <= x <"), ["1 < 2 <3 <= x <"]);
        assert_eq!(cut("a <b and c"), ["a <b and c"]);
        assert_eq!(cut("<p>it's <i title=it's>x</i>"), ["<p>", "it's ", "<i title=it's>", "x", "</i>"]);
    }

    #[test]
    fn a_slash_closes_outside_of_values() {
        let closed = |page: &str| matches!(tokens(page)[0].kind, TokenKind::Open { is_closed: true, .. });
        assert!(closed("<br/>") && closed("<x a='b' />") && closed("<x a/>"));
        assert!(!closed("<a href=b/>") && !closed("<a / b>") && !closed("<a href='/'>"));
    }

    #[test]
    fn comments_and_raw_elements_are_one_token() {
        assert_eq!(cut("a<!-- <b> -->c"), ["a", "<!-- <b> -->", "c"]);
        assert_eq!(cut("<!-->a"), ["<!-->", "a"]);
        assert_eq!(cut("<![CDATA[<b>]]>a"), ["<![CDATA[<b>]]>", "a"]);
        assert_eq!(cut("<?php a > b ?>c"), ["<?php a > b ?>", "c"]);
        assert_eq!(cut("<script>'</s' + '<b>'</SCRIPT >a"), ["<script>'</s' + '<b>'</SCRIPT >", "a"]);
        assert_eq!(cut("<title>a <b> c</title>d"), ["<title>", "a <b> c", "</title>", "d"]);
        assert_eq!(cut("<!DOCTYPE html><p>"), ["<!DOCTYPE html>", "<p>"]);
    }
}
