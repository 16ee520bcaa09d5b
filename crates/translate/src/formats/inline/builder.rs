//! From texts and tags, as they come, to a passage: plain text, and a tree of what stands inside.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::{Node, NodeKind, Passage};

/// Elements in elements that are placed by their words; the tags of outer ones stay in order, as if they were strays.
const MAX_NESTING: usize = 16;

/// A tag, or what is as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The opening tag of an element of this name.
    Open(String),
    /// A closing tag.
    Close(String),
    /// What has no other half and no words.
    Single,
    /// An element that comes back as it is.
    Literal,
}

/// A mark where it stands.
#[derive(Debug)]
struct Standing {
    mark: Mark,
    bytes: Range<usize>,
    /// The end of the plain text before it.
    before: usize,
    /// The beginning of the plain text behind it, or in it.
    after: usize,
    /// The end of the plain text in it.
    until: usize,
    has_space_before: bool,
    has_space_after: bool,
}

/// A passage that is being read.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    text: String,
    marks: Vec<Standing>,
    /// Whether white space was read that is not in the text yet.
    has_space: bool,
    /// How many marks know where the text behind them begins.
    n_settled: usize,
    /// How many marks know whether white space stands behind them.
    n_spaced: usize,
    unknown: BTreeSet<String>,
}

impl Builder {
    /// References that nobody knows.
    pub(crate) fn unknown(&mut self) -> &mut BTreeSet<String> {
        &mut self.unknown
    }

    /// Reads text, with letters for references. White space becomes single spaces between words.
    pub(crate) fn text(&mut self, text: &str) {
        for letter in text.chars() {
            if letter.is_whitespace() {
                self.marks[self.n_spaced..].iter_mut().for_each(|mark| mark.has_space_after = true);
                self.n_spaced = self.marks.len();
            }
            if letter.is_ascii_whitespace() {
                self.has_space = true;
                continue;
            }
            if std::mem::take(&mut self.has_space) && !self.text.is_empty() {
                self.text.push(' ');
            }
            let at = self.text.len();
            self.marks[self.n_settled..].iter_mut().for_each(|mark| mark.after = at);
            (self.n_settled, self.n_spaced) = (self.marks.len(), self.marks.len());
            self.text.push(letter);
        }
    }

    /// Reads a mark, which is these bytes of the document.
    pub(crate) fn mark(&mut self, mark: Mark, bytes: Range<usize>) {
        let before = self.text.len();
        let has_space_before = self.has_space || self.text.ends_with(char::is_whitespace);
        let has_space_after = false;
        let (after, until) = (usize::MAX, before);
        self.marks.push(Standing { mark, bytes, before, after, until, has_space_before, has_space_after });
    }

    /// Reads an element that comes back as it is, with its text.
    pub(crate) fn literal(&mut self, text: &str, bytes: Range<usize>) {
        let core = text.trim();
        if core.is_empty() {
            return self.mark(Mark::Single, bytes);
        }
        let index = self.marks.len();
        self.mark(Mark::Literal, bytes);
        let is_spaced = [text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace)];
        self.text(if is_spaced[0] { " " } else { "" });
        self.text(core);
        self.text(if is_spaced[1] { " " } else { "" });
        self.marks[index].until = self.text.len();
        // White space inside is not behind it.
        self.marks[index].has_space_after = false;
        self.n_spaced = index;
    }

    /// The passage of these bytes of the document; none where nothing is to be translated.
    pub(crate) fn finish(mut self, source: &str, bytes: Range<usize>) -> Option<Passage> {
        let end = self.text.len();
        self.marks.iter_mut().for_each(|mark| mark.after = mark.after.min(end));
        if !self.has_words() {
            return None;
        }
        let mut partners = partners(&self.marks);
        let (lead, tail) = self.edges(source, bytes, &partners);
        for index in lead.marks.clone().chain(tail.marks.clone()) {
            if let Some(partner) = partners[index].take() {
                partners[partner] = None;
            }
        }
        let inside = lead.marks.end..tail.marks.start;
        separate_deep(&mut partners, inside.clone());
        let nodes = nodes(&self.marks, &partners, inside);
        Some(Passage { lead: lead.bytes, tail: tail.bytes, text: self.text, nodes, unknown: self.unknown })
    }

    /// Whether there are letters or digits outside of literals.
    fn has_words(&self) -> bool {
        let mut at = 0;
        let mut has_words = false;
        for literal in self.marks.iter().filter(|mark| mark.mark == Mark::Literal) {
            has_words |= self.text[at..literal.after].contains(char::is_alphanumeric);
            at = literal.until;
        }
        has_words || self.text[at..].contains(char::is_alphanumeric)
    }

    /// What stays before and behind the text: white space, and marks that are not around some words only.
    fn edges(&self, source: &str, bytes: Range<usize>, partners: &[Option<usize>]) -> (Edge, Edge) {
        let end = self.text.len();
        let is_edge = |index: usize| match (&self.marks[index].mark, partners[index]) {
            (Mark::Literal, _) => false,
            (_, None) => true,
            (_, Some(partner)) => {
                let (open, close) = (&self.marks[index.min(partner)], &self.marks[index.max(partner)]);
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
        while let Some(mark) = self.marks.get(first).filter(|mark| mark.bytes.start == lead && is_edge(first))
        {
            lead = spaces_from(mark.bytes.end);
            first += 1;
        }
        let mut last = self.marks.len();
        let spaces_up_to = |at: usize, last: usize| {
            let from = self.marks[first..last].last().map_or(lead, |mark| mark.bytes.end);
            at - source[from..at].iter().rev().take_while(|byte| is_space(byte)).count()
        };
        let mut tail = spaces_up_to(bytes.end, last);
        while last > first && self.marks[last - 1].bytes.end == tail && is_edge(last - 1) {
            last -= 1;
            tail = spaces_up_to(self.marks[last].bytes.start, last);
        }
        (
            Edge { bytes: bytes.start..lead, marks: 0..first },
            Edge { bytes: tail..bytes.end, marks: last..self.marks.len() },
        )
    }
}

/// What stays before or behind a text.
struct Edge {
    bytes: Range<usize>,
    marks: Range<usize>,
}

/// The other half of each mark, for those that are properly nested.
fn partners(marks: &[Standing]) -> Vec<Option<usize>> {
    let mut partners = vec![None; marks.len()];
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (index, mark) in marks.iter().enumerate() {
        match &mark.mark {
            Mark::Open(name) => {
                open.push((index, name));
                *counts.entry(name).or_default() += 1;
            }
            Mark::Close(name) if counts.get(name.as_str()).is_some_and(|count| *count > 0) => {
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

/// Parts the tags of elements that hold too many others in each other.
fn separate_deep(partners: &mut [Option<usize>], inside: Range<usize>) {
    // How deep elements are nested in each open one.
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

/// The tree of the marks `inside`.
fn nodes(marks: &[Standing], partners: &[Option<usize>], inside: Range<usize>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for index in inside {
        let mark = &marks[index];
        if let (Mark::Close(_), Some(_)) = (&mark.mark, partners[index]) {
            let Some(element) = open.pop().map(|element| &mut nodes[element]) else { continue };
            element.close = mark.bytes.clone();
            if element.text.start < mark.before {
                element.text.end = mark.before;
                element.has_space_after = mark.has_space_after;
            } else {
                // Without words it stands behind the word before it, as other marks do.
                element.text = element.text.end..element.text.end;
                element.has_space_after |= mark.has_space_after;
            }
            continue;
        }
        let (kind, text) = match &mark.mark {
            Mark::Open(_) if partners[index].is_some() => (NodeKind::Element, mark.after..mark.before),
            Mark::Literal => (NodeKind::Literal, mark.after..mark.until),
            Mark::Single => (NodeKind::Single, mark.before..mark.before),
            Mark::Open(_) | Mark::Close(_) => (NodeKind::Stray, mark.before..mark.before),
        };
        nodes.push(Node {
            kind,
            open: mark.bytes.clone(),
            close: 0..0,
            text,
            has_space_before: mark.has_space_before,
            has_space_after: mark.has_space_after,
            parent: open.last().copied(),
        });
        if kind == NodeKind::Element {
            open.push(nodes.len() - 1);
        }
    }
    nodes
}
