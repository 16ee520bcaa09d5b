//! A text with tags inside: plain for the translator, with tags restored through the word alignment.
//!
//! 1. [`Builder`] reads texts and tags in order and makes a [`TaggedText`]: the plain text with single spaces, and a tree
//!    of [`Node`]s, each around a range of it.
//! 2. [`word_parts`] divides words where tags or punctuation begin inside them, in the text and in its translation, and
//!    aligns these parts.
//! 3. [`place`] gives each node the parts of the translation that are aligned with its own.
//! 4. [`write`] writes translation and tags.
//!
//! An element comes back once, around the longest run of its words, never across another one. Where its words have no
//! counterpart it is placed next to the word before it. Unpaired tags stay in order and outside of elements that they were
//! not in, so that a balanced page stays balanced.

mod builder;
mod literals;
mod place;
mod word_parts;
mod write;

use std::collections::BTreeSet;
use std::ops::Range;

pub(crate) use self::builder::{Builder, Tag};
use self::place::Placed;
use super::TranslatedText;
use crate::words::words;

/// A text with tags inside.
#[derive(Debug, Clone)]
pub(crate) struct TaggedText {
    /// Bytes of the document before the text: white space, and tags that stay there.
    lead: Range<usize>,
    /// Bytes after the text.
    tail: Range<usize>,
    /// The plain text.
    text: String,
    /// Elements and tags inside, by their beginning.
    nodes: Vec<Node>,
    /// Unknown character references, which stay as they are.
    unknown: BTreeSet<String>,
}

/// An element or a tag inside a text.
#[derive(Debug, Clone)]
struct Node {
    kind: NodeKind,
    /// Bytes of the document that it begins with; all of its bytes where it has no closing tag.
    open: Range<usize>,
    /// Bytes of its closing tag.
    close: Range<usize>,
    /// Bytes of the plain text in it; where it has none, the end of the word before it.
    text: Range<usize>,
    has_space_before: bool,
    has_space_after: bool,
    /// Index of the element that contains it.
    parent: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// An opening and a closing tag.
    Element,
    /// An empty element, a comment.
    Single,
    /// An element that comes back as it is, with its words.
    Literal,
    /// An unpaired tag.
    Stray,
}

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output<'a> {
    /// Bytes of the document.
    Markup(Range<usize>),
    /// Text of the translation.
    Text(&'a str),
}

impl TaggedText {
    /// The plain text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of the document that the text was read from, without the markup around it.
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.lead.end..self.tail.start
    }

    /// True if there are tags inside.
    pub(crate) fn has_tags(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Unknown character references, which stay as they are.
    pub(crate) fn unknown(&self) -> &BTreeSet<String> {
        &self.unknown
    }

    /// The translation with its tags; without a translation, the text.
    pub(crate) fn write<'a>(&'a self, translated: Option<&TranslatedText<'a>>) -> Vec<Output<'a>> {
        if let Some(translated) = translated {
            return self.output(translated.text, translated.alignment);
        }
        let itself: Vec<_> = (0..words(&self.text).len()).map(|word| (word, word)).collect();
        self.output(&self.text, &itself)
    }

    fn output<'a>(&'a self, text: &'a str, alignment: &[(usize, usize)]) -> Vec<Output<'a>> {
        let mut output = vec![Output::Markup(self.lead.clone())];
        if self.nodes.is_empty() {
            output.push(Output::Text(text));
        } else {
            let placed = Placed::new(&self.text, &self.nodes, text, alignment);
            write::write(text, &self.nodes, &placed, &mut output);
        }
        output.push(Output::Markup(self.tail.clone()));
        output
    }
}
