//! HTML: a page as texts with what stands between them.
//!
//! A text ends at the tags of block elements. Tags of other elements, comments and scripts inside it are taken out and put
//! back into its translation ([`crate::formats::inline`]); those at its beginning and end stay there, byte for byte, as do
//! runs of white space. Not translated are scripts, styles, `pre` and `textarea`, attributes, and elements that say
//! `translate="no"` or have the class `notranslate`. Inside a text, such an element and `code`, `kbd`, `samp` and `var` come
//! back as they are, though their words are shown to the translator so that the sentence can be read.

mod entities;
mod names;
mod tokens;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use self::tokens::{Kind, Token, tokens};
use super::Filled;
use super::inline::{Builder, Chunk, Mark, Passage};

/// A page.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    /// Bytes that stay.
    Kept(Range<usize>),
    Passage(Box<Passage>),
}

impl Page {
    pub(crate) fn read(source: &str) -> Self {
        let tokens = tokens(source);
        let partners = partners(&tokens);
        let mut reader =
            Reader { source, tokens: &tokens, partners: &partners, pieces: Vec::new(), open: None };
        let mut next = 0;
        while next < tokens.len() {
            next = reader.token(next);
        }
        reader.end_passage();
        Self { source: source.to_owned(), pieces: reader.pieces }
    }

    pub(crate) fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Kept(_) => None,
            Piece::Passage(passage) => Some(&**passage),
        })
    }

    pub(crate) fn write(&self, translated: &[Filled<'_>]) -> String {
        let mut page = String::with_capacity(self.source.len());
        let mut translated = translated.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Kept(range) => page.push_str(&self.source[range.clone()]),
                Piece::Passage(passage) => {
                    for chunk in passage.write(&self.source, translated.next()) {
                        match chunk {
                            Chunk::Mark(mark) => page.push_str(mark),
                            Chunk::Text(text) => entities::encode(text, passage.unknown(), &mut page),
                        }
                    }
                }
            }
        }
        page
    }
}

/// The closing tag of each opening one: the next of its name that no other has.
fn partners(tokens: &[Token]) -> Vec<Option<usize>> {
    let mut partners = vec![None; tokens.len()];
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, token) in tokens.iter().enumerate() {
        match &token.kind {
            Kind::Open { name, is_closed: false } => open.entry(name).or_default().push(index),
            Kind::Close { name } => {
                if let Some(opening) = open.get_mut(name.as_str()).and_then(Vec::pop) {
                    partners[opening] = Some(index);
                }
            }
            _ => {}
        }
    }
    partners
}

/// Whether markup has the end that its kind has.
fn is_whole(markup: &str) -> bool {
    let ends = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let end = ends.into_iter().find(|(start, _)| markup.starts_with(start)).map_or(">", |(_, end)| end);
    markup.ends_with(end) || markup == "<!-->"
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token],
    partners: &'a [Option<usize>],
    pieces: Vec<Piece>,
    /// The passage that is being read, and its first byte.
    open: Option<(Builder, usize)>,
}

impl Reader<'_> {
    /// Reads a token, or an element that is one thing; the next token.
    fn token(&mut self, index: usize) -> usize {
        let range = self.tokens[index].range.clone();
        match &self.tokens[index].kind {
            Kind::Text => self.text(range),
            Kind::Markup if is_whole(&self.source[range.clone()]) => self.mark(Mark::Single, range),
            // Its end hangs on what follows: it must not move.
            Kind::Markup => self.keep(range),
            Kind::Raw { name } if names::is_block(name) => self.keep(range),
            Kind::Raw { .. } => self.mark(Mark::Single, range),
            Kind::Open { name, is_closed } => {
                return self.open_tag(index, name, *is_closed || names::is_void(name));
            }
            Kind::Close { name } if names::is_block(name) => self.keep(range),
            Kind::Close { name } => self.mark(Mark::Close(name.clone()), range),
        }
        index + 1
    }

    fn open_tag(&mut self, index: usize, name: &str, is_empty: bool) -> usize {
        let range = self.tokens[index].range.clone();
        let partner = self.partners[index];
        let is_untranslated = || names::is_untranslated(&self.source[range.clone()]);
        if names::is_block(name) {
            let is_kept = !is_empty && (name == "pre" || name == "listing" || is_untranslated());
            return match partner {
                Some(partner) if is_kept => self.keep_element(index, partner),
                // Browsers take the rest for its content.
                None if is_kept && name == "pre" => self.keep_element(index, self.tokens.len() - 1),
                _ => {
                    self.keep(range);
                    index + 1
                }
            };
        }
        match partner {
            _ if is_empty => self.mark(Mark::Single, range),
            Some(partner) if names::is_picture(name) => {
                self.mark(Mark::Single, range.start..self.tokens[partner].range.end);
                return partner + 1;
            }
            Some(partner) if names::is_literal(name) || is_untranslated() => {
                return self.literal(index, partner);
            }
            _ => self.mark(Mark::Open(name.to_owned()), range),
        }
        index + 1
    }

    /// An element whose words stay as they are.
    fn literal(&mut self, index: usize, partner: usize) -> usize {
        let is_block = |token: &Token| match &token.kind {
            Kind::Open { name, .. } | Kind::Close { name } | Kind::Raw { name } => names::is_block(name),
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
        for token in inside.iter().filter(|token| token.kind == Kind::Text) {
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

    fn mark(&mut self, mark: Mark, range: Range<usize>) {
        self.builder(range.start).mark(mark, range);
    }

    fn builder(&mut self, start: usize) -> &mut Builder {
        &mut self.open.get_or_insert_with(|| (Builder::default(), start)).0
    }

    fn keep_element(&mut self, index: usize, partner: usize) -> usize {
        self.keep(self.tokens[index].range.start..self.tokens[partner].range.end);
        partner + 1
    }

    /// Bytes that stay; the passage before them ends.
    fn keep(&mut self, range: Range<usize>) {
        self.end_passage_at(range.start);
        self.push_kept(range);
    }

    fn end_passage(&mut self) {
        self.end_passage_at(self.source.len());
    }

    fn end_passage_at(&mut self, end: usize) {
        if let Some((builder, start)) = self.open.take() {
            match builder.finish(self.source, start..end) {
                Some(passage) => self.pieces.push(Piece::Passage(Box::new(passage))),
                None => self.push_kept(start..end),
            }
        }
    }

    fn push_kept(&mut self, range: Range<usize>) {
        match self.pieces.last_mut() {
            Some(Piece::Kept(last)) => last.end = range.end,
            _ => self.pieces.push(Piece::Kept(range)),
        }
    }
}
