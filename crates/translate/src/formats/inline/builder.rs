//! Builds a tagged text from texts and tags: plain text, and a tree of the elements in it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::{Node, NodeKind, TaggedText};

/// Deepest nesting of elements that are placed by their words; the tags of outer ones stay in order, as unpaired ones do.
const MAX_NESTING: usize = 16;

/// A tag, or markup that is treated as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The opening tag of an element of this name.
    Open(String),
    /// A closing tag.
    Close(String),
    /// Markup without a closing tag and without words.
    Single,
    /// An element that comes back as it is.
    Literal,
}

/// A tag with its position.
#[derive(Debug)]
struct PositionedTag {
    tag: Tag,
    bytes: Range<usize>,
    /// End of the plain text before it.
    before: usize,
    /// Beginning of the plain text after it, or in it.
    after: usize,
    /// End of the plain text in it.
    until: usize,
    has_space_before: bool,
    has_space_after: bool,
}

/// A tagged text that is being read.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    text: String,
    tags: Vec<PositionedTag>,
    /// True if white space was read that is not in the text yet.
    has_space: bool,
    /// Number of tags whose `after` is known.
    n_settled: usize,
    /// Number of tags whose `has_space_after` is known.
    n_spaced: usize,
    unknown: BTreeSet<String>,
}

impl Builder {
    /// Unknown character references.
    pub(crate) fn unknown(&mut self) -> &mut BTreeSet<String> {
        &mut self.unknown
    }

    /// Reads text with decoded references. White space becomes single spaces between words.
    pub(crate) fn text(&mut self, text: &str) {
        for letter in text.chars() {
            if letter.is_whitespace() {
                self.tags[self.n_spaced..].iter_mut().for_each(|tag| tag.has_space_after = true);
                self.n_spaced = self.tags.len();
            }
            if letter.is_ascii_whitespace() {
                self.has_space = true;
                continue;
            }
            if std::mem::take(&mut self.has_space) && !self.text.is_empty() {
                self.text.push(' ');
            }
            let at = self.text.len();
            self.tags[self.n_settled..].iter_mut().for_each(|tag| tag.after = at);
            (self.n_settled, self.n_spaced) = (self.tags.len(), self.tags.len());
            self.text.push(letter);
        }
    }

    /// Reads a tag, which is these bytes of the document.
    pub(crate) fn tag(&mut self, tag: Tag, bytes: Range<usize>) {
        let before = self.text.len();
        let has_space_before = self.has_space || self.text.ends_with(char::is_whitespace);
        let has_space_after = false;
        let (after, until) = (usize::MAX, before);
        self.tags.push(PositionedTag { tag, bytes, before, after, until, has_space_before, has_space_after });
    }

    /// Reads an element that comes back as it is, with its text.
    pub(crate) fn literal(&mut self, text: &str, bytes: Range<usize>) {
        let core = text.trim();
        if core.is_empty() {
            return self.tag(Tag::Single, bytes);
        }
        let index = self.tags.len();
        self.tag(Tag::Literal, bytes);
        let is_spaced = [text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace)];
        self.text(if is_spaced[0] { " " } else { "" });
        self.text(core);
        self.text(if is_spaced[1] { " " } else { "" });
        self.tags[index].until = self.text.len();
        // White space inside is not after it.
        self.tags[index].has_space_after = false;
        self.n_spaced = index;
    }

    /// The tagged text of these bytes of the document; none without anything to translate.
    pub(crate) fn finish(mut self, source: &str, bytes: Range<usize>) -> Option<TaggedText> {
        let end = self.text.len();
        self.tags.iter_mut().for_each(|tag| tag.after = tag.after.min(end));
        if !self.has_words() {
            return None;
        }
        let mut partners = partners(&self.tags);
        let (lead, tail) = self.edges(source, bytes, &partners);
        for index in lead.tags.clone().chain(tail.tags.clone()) {
            if let Some(partner) = partners[index].take() {
                partners[partner] = None;
            }
        }
        let inside = lead.tags.end..tail.tags.start;
        separate_deep(&mut partners, inside.clone());
        let nodes = nodes(&self.tags, &partners, inside);
        Some(TaggedText { lead: lead.bytes, tail: tail.bytes, text: self.text, nodes, unknown: self.unknown })
    }

    /// True if there are letters or digits outside of literals.
    fn has_words(&self) -> bool {
        let mut at = 0;
        let mut has_words = false;
        for literal in self.tags.iter().filter(|tag| tag.tag == Tag::Literal) {
            has_words |= self.text[at..literal.after].contains(char::is_alphanumeric);
            at = literal.until;
        }
        has_words || self.text[at..].contains(char::is_alphanumeric)
    }

    /// Bytes and tags that stay before and after the text: white space, and tags that do not enclose just some words.
    fn edges(&self, source: &str, bytes: Range<usize>, partners: &[Option<usize>]) -> (Edge, Edge) {
        let end = self.text.len();
        let is_edge = |index: usize| match (&self.tags[index].tag, partners[index]) {
            (Tag::Literal, _) => false,
            (_, None) => true,
            (_, Some(partner)) => {
                let (open, close) = (&self.tags[index.min(partner)], &self.tags[index.max(partner)]);
                let is_around_all = open.before == 0 && close.after == end;
                is_around_all || open.after >= close.before
            }
        };
        let is_space = |byte: &u8| byte.is_ascii_whitespace();
        let source = source.as_bytes();
        let spaces_from =
            |at: usize| at + source[at..bytes.end].iter().take_while(|byte| is_space(byte)).count();
        let mut lead = spaces_from(bytes.start);
        let mut first = 0;
        while let Some(tag) = self.tags.get(first).filter(|tag| tag.bytes.start == lead && is_edge(first)) {
            lead = spaces_from(tag.bytes.end);
            first += 1;
        }
        let mut last = self.tags.len();
        let spaces_up_to = |at: usize, last: usize| {
            let from = self.tags[first..last].last().map_or(lead, |tag| tag.bytes.end);
            at - source[from..at].iter().rev().take_while(|byte| is_space(byte)).count()
        };
        let mut tail = spaces_up_to(bytes.end, last);
        while last > first && self.tags[last - 1].bytes.end == tail && is_edge(last - 1) {
            last -= 1;
            tail = spaces_up_to(self.tags[last].bytes.start, last);
        }
        (
            Edge { bytes: bytes.start..lead, tags: 0..first },
            Edge { bytes: tail..bytes.end, tags: last..self.tags.len() },
        )
    }
}

/// Bytes and tags that stay before or after a text.
struct Edge {
    bytes: Range<usize>,
    tags: Range<usize>,
}

/// The partner of each tag, for those that are properly nested.
fn partners(tags: &[PositionedTag]) -> Vec<Option<usize>> {
    let mut partners = vec![None; tags.len()];
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (index, tag) in tags.iter().enumerate() {
        match &tag.tag {
            Tag::Open(name) => {
                open.push((index, name));
                *counts.entry(name).or_default() += 1;
            }
            Tag::Close(name) if counts.get(name.as_str()).is_some_and(|count| *count > 0) => {
                while let Some((opening, found)) = open.pop() {
                    *counts.entry(found).or_default() -= 1;
                    if found == name {
                        partners[opening] = Some(index);
                        partners[index] = Some(opening);
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    partners
}

/// Separates the tags of elements that are nested too deeply.
fn separate_deep(partners: &mut [Option<usize>], inside: Range<usize>) {
    // Height of the elements in each open one.
    let mut heights = vec![0];
    for index in inside {
        match partners[index] {
            Some(partner) if partner > index => heights.push(0),
            Some(partner) => {
                let height = heights.pop().unwrap_or(0) + 1;
                if height > MAX_NESTING {
                    partners[index] = None;
                    partners[partner] = None;
                }
                if let Some(outer) = heights.last_mut() {
                    *outer = height.max(*outer);
                }
            }
            None => {}
        }
    }
}

/// The tree of the tags `inside`.
fn nodes(tags: &[PositionedTag], partners: &[Option<usize>], inside: Range<usize>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for index in inside {
        let tag = &tags[index];
        if let (Tag::Close(_), Some(_)) = (&tag.tag, partners[index]) {
            let Some(element) = open.pop().map(|element| &mut nodes[element]) else { continue };
            element.close = tag.bytes.clone();
            if element.text.start < tag.before {
                element.text.end = tag.before;
                element.has_space_after = tag.has_space_after;
            } else {
                // Without words it is placed after the word before it, as other tags are.
                element.text = element.text.end..element.text.end;
                element.has_space_after |= tag.has_space_after;
            }
            continue;
        }
        let (kind, text) = match &tag.tag {
            Tag::Open(_) if partners[index].is_some() => (NodeKind::Element, tag.after..tag.before),
            Tag::Literal => (NodeKind::Literal, tag.after..tag.until),
            Tag::Single => (NodeKind::Single, tag.before..tag.before),
            Tag::Open(_) | Tag::Close(_) => (NodeKind::Stray, tag.before..tag.before),
        };
        nodes.push(Node {
            kind,
            open: tag.bytes.clone(),
            close: 0..0,
            text,
            has_space_before: tag.has_space_before,
            has_space_after: tag.has_space_after,
            parent: open.last().copied(),
        });
        if kind == NodeKind::Element {
            open.push(nodes.len() - 1);
        }
    }
    nodes
}
