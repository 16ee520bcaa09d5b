//! HTML: the texts of a page and the markup between them.
//!
//! A text ends at the tags of block elements. Tags of other elements, comments and scripts inside it are removed and
//! restored in its translation ([`crate::formats::inline`]); those at its beginning and end stay there, byte for byte, as
//! does white space. Texts in attributes (`alt`, `title`, the description of the page) are texts too, after all others.
//! Scripts, styles, `pre`, `textarea`, other attributes, and elements with `translate="no"` or the class `notranslate` are
//! not translated. Inside a text, such an element and `code`, `kbd`, `samp` and `var` come back as they
//! are, though the translator reads their words, which the sentence may need.

mod attributes;
mod entities;
mod names;
mod tokens;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use self::attributes::AttributeEdit;
use self::tokens::{HtmlToken, TokenKind, tokens};
use super::TranslatedText;
use super::inline::{Builder, Output, Tag, TaggedText};

/// A page.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    source: String,
    parts: Vec<PagePart>,
    /// Values of attributes that are translated or replaced, in order.
    edits: Vec<AttributeEdit>,
}

#[derive(Debug, Clone)]
enum PagePart {
    /// Bytes that stay.
    Verbatim(Range<usize>),
    Text(Box<TaggedText>),
}

impl Page {
    pub(crate) fn read(source: &str) -> Self {
        let tokens = tokens(source);
        let partners = partners(&tokens);
        let mut reader = Reader {
            source,
            tokens: &tokens,
            partners: &partners,
            parts: Vec::new(),
            edits: Vec::new(),
            open: None,
        };
        let mut next = 0;
        while next < tokens.len() {
            next = reader.token(next);
        }
        reader.end_text();
        Self { source: source.to_owned(), parts: reader.parts, edits: reader.edits }
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &TaggedText> {
        self.parts.iter().filter_map(|part| match part {
            PagePart::Verbatim(_) => None,
            PagePart::Text(text) => Some(&**text),
        })
    }

    /// The texts of attributes.
    pub(crate) fn attribute_texts(&self) -> impl Iterator<Item = &str> {
        self.edits.iter().filter_map(AttributeEdit::text)
    }

    pub(crate) fn write(&self, translated: &[TranslatedText<'_>], language: Option<&str>) -> String {
        let (texts, attributes) = translated.split_at(self.texts().count().min(translated.len()));
        let values = attributes::values(&self.edits, attributes, language);
        let mut page = String::with_capacity(self.source.len());
        let mut translated = texts.iter();
        for part in &self.parts {
            match part {
                PagePart::Verbatim(range) => self.write_markup(range, &values, &mut page),
                PagePart::Text(tagged) => {
                    for output in tagged.write(translated.next()) {
                        match output {
                            Output::Markup(range) => self.write_markup(&range, &values, &mut page),
                            Output::Text(text) => entities::encode(text, tagged.unknown(), &mut page),
                        }
                    }
                }
            }
        }
        page
    }

    /// Appends bytes of the page with the new values of their attributes.
    fn write_markup(&self, range: &Range<usize>, values: &[Option<String>], page: &mut String) {
        let first = self.edits.partition_point(|edit| edit.bytes.start < range.start);
        let mut at = range.start;
        for (edit, value) in self.edits.iter().zip(values).skip(first) {
            if edit.bytes.end > range.end {
                break;
            }
            if let Some(value) = value {
                page.push_str(&self.source[at..edit.bytes.start]);
                page.push_str(value);
                at = edit.bytes.end;
            }
        }
        page.push_str(&self.source[at..range.end]);
    }
}

/// The index of the closing tag of each opening one: the next of its name that belongs to no other.
fn partners(tokens: &[HtmlToken]) -> Vec<Option<usize>> {
    let mut partners = vec![None; tokens.len()];
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, token) in tokens.iter().enumerate() {
        match &token.kind {
            TokenKind::Open { name, is_closed: false } => open.entry(name).or_default().push(index),
            TokenKind::Close { name } => {
                if let Some(opening) = open.get_mut(name.as_str()).and_then(Vec::pop) {
                    partners[opening] = Some(index);
                }
            }
            _ => {}
        }
    }
    partners
}

/// True if markup has the end of its kind.
fn is_whole(markup: &str) -> bool {
    let ends = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let end = ends.into_iter().find(|(start, _)| markup.starts_with(start)).map_or(">", |(_, end)| end);
    markup.ends_with(end) || markup == "<!-->"
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [HtmlToken],
    partners: &'a [Option<usize>],
    parts: Vec<PagePart>,
    edits: Vec<AttributeEdit>,
    /// The text that is being read, and its first byte.
    open: Option<(Builder, usize)>,
}

impl Reader<'_> {
    /// Reads a token, or an element that is read as a whole; returns the index of the next token.
    fn token(&mut self, index: usize) -> usize {
        let range = self.tokens[index].range.clone();
        match &self.tokens[index].kind {
            TokenKind::Text => self.text(range),
            TokenKind::Markup if is_whole(&self.source[range.clone()]) => self.tag(Tag::Single, range),
            // Its end depends on the text after it: it must not move.
            TokenKind::Markup => self.keep(range),
            TokenKind::Raw { name } if names::is_block(name) => self.keep(range),
            TokenKind::Raw { .. } => self.tag(Tag::Single, range),
            TokenKind::Open { name, is_closed } => {
                return self.open_tag(index, name, *is_closed || names::is_void(name));
            }
            TokenKind::Close { name } if names::is_block(name) => self.keep(range),
            TokenKind::Close { name } => self.tag(Tag::Close(name.clone()), range),
        }
        index + 1
    }

    fn open_tag(&mut self, index: usize, name: &str, is_empty: bool) -> usize {
        let range = self.tokens[index].range.clone();
        let partner = self.partners[index];
        let is_untranslated = || names::is_untranslated(&self.source[range.clone()]);
        if !is_untranslated() {
            self.edits.extend(attributes::edits(self.source, name, range.clone()));
        }
        if names::is_block(name) {
            let is_verbatim = !is_empty && (name == "pre" || name == "listing" || is_untranslated());
            return match partner {
                Some(partner) if is_verbatim => self.keep_element(index, partner),
                // To browsers the rest of the page is its content.
                None if is_verbatim && name == "pre" => self.keep_element(index, self.tokens.len() - 1),
                _ => {
                    self.keep(range);
                    index + 1
                }
            };
        }
        match partner {
            _ if is_empty => self.tag(Tag::Single, range),
            Some(partner) if names::is_picture(name) => {
                self.tag(Tag::Single, range.start..self.tokens[partner].range.end);
                return partner + 1;
            }
            Some(partner) if names::is_literal(name) || is_untranslated() => {
                return self.literal(index, partner);
            }
            _ => self.tag(Tag::Open(name.to_owned()), range),
        }
        index + 1
    }

    /// Reads an element whose words stay as they are; returns the index of the next token.
    fn literal(&mut self, index: usize, partner: usize) -> usize {
        let is_block = |token: &HtmlToken| match &token.kind {
            TokenKind::Open { name, .. } | TokenKind::Close { name } | TokenKind::Raw { name } => {
                names::is_block(name)
            }
            _ => false,
        };
        let inside = &self.tokens[index + 1..partner];
        if inside.iter().any(is_block) {
            return self.keep_element(index, partner);
        }
        let range = self.tokens[index].range.start..self.tokens[partner].range.end;
        let source = self.source;
        let builder = self.builder(range.start);
        let mut text = String::new();
        for token in inside.iter().filter(|token| token.kind == TokenKind::Text) {
            text.push_str(&entities::decode(&source[token.range.clone()], builder.unknown()));
        }
        builder.literal(&text, range);
        partner + 1
    }

    fn text(&mut self, range: Range<usize>) {
        let source = self.source;
        let builder = self.builder(range.start);
        let text = entities::decode(&source[range], builder.unknown());
        builder.text(&text);
    }

    fn tag(&mut self, tag: Tag, range: Range<usize>) {
        self.builder(range.start).tag(tag, range);
    }

    fn builder(&mut self, start: usize) -> &mut Builder {
        &mut self.open.get_or_insert_with(|| (Builder::default(), start)).0
    }

    fn keep_element(&mut self, index: usize, partner: usize) -> usize {
        self.keep(self.tokens[index].range.start..self.tokens[partner].range.end);
        partner + 1
    }

    /// Appends bytes that stay; the text before them ends.
    fn keep(&mut self, range: Range<usize>) {
        self.end_text_at(range.start);
        self.push_verbatim(range);
    }

    fn end_text(&mut self) {
        self.end_text_at(self.source.len());
    }

    fn end_text_at(&mut self, end: usize) {
        if let Some((builder, start)) = self.open.take() {
            match builder.finish(self.source, start..end) {
                Some(text) => self.parts.push(PagePart::Text(Box::new(text))),
                None => self.push_verbatim(start..end),
            }
        }
    }

    fn push_verbatim(&mut self, range: Range<usize>) {
        match self.parts.last_mut() {
            Some(PagePart::Verbatim(last)) => last.end = range.end,
            _ => self.parts.push(PagePart::Verbatim(range)),
        }
    }
}
