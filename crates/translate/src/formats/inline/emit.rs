//! A translation with its nodes where they were placed.

use std::ops::Range;

use super::place::Placed;
use super::{Chunk, Node, NodeKind};

/// Writes a translation with its nodes.
pub(super) fn emit<'a>(
    source: &'a str,
    target: &'a str,
    nodes: &[Node],
    placed: &Placed,
    chunks: &mut Vec<Chunk<'a>>,
) {
    let mut writer = Writer { source, target, nodes, placed, chunks };
    writer.children(nodes.len(), 0..target.len());
}

struct Writer<'a, 'p> {
    source: &'a str,
    target: &'a str,
    nodes: &'p [Node],
    placed: &'p Placed,
    chunks: &'p mut Vec<Chunk<'a>>,
}

impl Writer<'_, '_> {
    /// Writes bytes of the translation with the nodes in a node.
    fn children(&mut self, parent: usize, bytes: Range<usize>) {
        let mut children = self.placed.children[parent].clone();
        children.sort_by_key(|child| self.placed.spots[*child].start);
        let mut at = bytes.start;
        for child in children {
            let spot = &self.placed.spots[child];
            let start = spot.start.clamp(at, bytes.end);
            self.text(at..start);
            let end = spot.end.clamp(start, bytes.end);
            self.node(child, start..end);
            at = end;
        }
        self.text(at..bytes.end);
    }

    fn node(&mut self, index: usize, bytes: Range<usize>) {
        let node = &self.nodes[index];
        let (before, after) = match node.kind {
            NodeKind::Single | NodeKind::Element if node.text.is_empty() => {
                (node.has_space_before, node.has_space_after)
            }
            NodeKind::Literal => (bytes.is_empty(), bytes.is_empty()),
            _ => (false, false),
        };
        // White space stands on one side of it already, or it stands inside a word, where nothing is put.
        let is_space = |letter: Option<char>| letter.is_none_or(char::is_whitespace);
        let left = is_space(self.target[..bytes.start].chars().next_back());
        let right = is_space(self.target[bytes.end..].chars().next());
        if before && !left && right {
            self.chunks.push(Chunk::Text(" "));
        }
        self.chunks.push(Chunk::Mark(&self.source[node.open.clone()]));
        if node.kind != NodeKind::Literal {
            self.children(index, bytes);
        }
        self.chunks.push(Chunk::Mark(&self.source[node.close.clone()]));
        if after && left && !right {
            self.chunks.push(Chunk::Text(" "));
        }
    }

    fn text(&mut self, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.chunks.push(Chunk::Text(&self.target[bytes]));
        }
    }
}
