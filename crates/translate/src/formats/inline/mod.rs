//! A text with tags inside: plain for the translator, and put together again through the word alignment.
//!
//! 1. [`Builder`] takes texts and tags as they come and makes a [`Passage`]: the plain text with single spaces, and a tree
//!    of [`Node`]s, each around a range of it.
//! 2. [`atoms`] cuts words where tags stand inside them and where marks such as full stops begin, in the text and in its
//!    translation, and says which atom comes from which.
//! 3. [`place`] gives each node the atoms of the translation that come from its own.
//! 4. [`emit`] writes translation and tags.
//!
//! An element comes back once, around the longest run of its words, never across another one. Where its words have no
//! counterpart it stands next to the word before it. Tags without their other half stay in order and out of elements that
//! they were not in, so that a page that was balanced is balanced again.

mod atoms;
mod builder;
mod emit;
mod literals;
mod place;

use std::collections::BTreeSet;
use std::ops::Range;

pub(crate) use self::builder::{Builder, Mark};
use self::place::Placed;
use super::Filled;
use crate::words::words;

/// A text with tags inside.
#[derive(Debug, Clone)]
pub(crate) struct Passage {
    /// The bytes of the document before the text: white space, and tags that stay there.
    lead: Range<usize>,
    /// Those behind it.
    tail: Range<usize>,
    /// The plain text.
    text: String,
    /// What stands inside, by where it begins.
    nodes: Vec<Node>,
    /// References that nobody knows, which are left as they are.
    unknown: BTreeSet<String>,
}

/// An element or a tag inside a text.
#[derive(Debug, Clone)]
struct Node {
    kind: NodeKind,
    /// The bytes of the document that it begins with; all of them where it has no closing tag.
    open: Range<usize>,
    /// The bytes of its closing tag.
    close: Range<usize>,
    /// The plain text in it, in bytes; where it has none, the end of the word before it.
    text: Range<usize>,
    has_space_before: bool,
    has_space_after: bool,
    /// The element that it stands in.
    parent: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// Two tags.
    Element,
    /// An empty element, a comment.
    Single,
    /// An element that comes back as it is, with its words.
    Literal,
    /// A tag without its other half.
    Stray,
}

/// A part of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk<'a> {
    /// Bytes of the document.
    Mark(&'a str),
    /// Text of the translation.
    Text(&'a str),
}

impl Passage {
    /// The plain text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of the document that the text was read from, without what stays around it.
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.lead.end..self.tail.start
    }

    /// Whether tags stand inside.
    pub(crate) fn has_tags(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// References that are left as they are.
    pub(crate) fn unknown(&self) -> &BTreeSet<String> {
        &self.unknown
    }

    /// The translation with its tags; without one, the text.
    pub(crate) fn write<'a>(&'a self, source: &'a str, filled: Option<&Filled<'a>>) -> Vec<Chunk<'a>> {
        if let Some(filled) = filled {
            return self.chunks(source, filled.text, filled.alignment);
        }
        let itself: Vec<_> = (0..words(&self.text).len()).map(|word| (word, word)).collect();
        self.chunks(source, &self.text, &itself)
    }

    fn chunks<'a>(&'a self, source: &'a str, text: &'a str, alignment: &[(usize, usize)]) -> Vec<Chunk<'a>> {
        let mut chunks = vec![Chunk::Mark(&source[self.lead.clone()])];
        if self.nodes.is_empty() {
            chunks.push(Chunk::Text(text));
        } else {
            let placed = Placed::new(&self.text, &self.nodes, text, alignment);
            emit::emit(source, text, &self.nodes, &placed, &mut chunks);
        }
        chunks.push(Chunk::Mark(&source[self.tail.clone()]));
        chunks
    }
}
