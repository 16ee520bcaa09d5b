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
        let is_apart = match node.kind {
            NodeKind::Single | NodeKind::Element => {
                node.text.is_empty() && node.has_space_before && node.has_space_after
            }
            NodeKind::Literal => bytes.is_empty(),
            NodeKind::Stray => false,
        };
        let is_behind_space = self.target[..bytes.start].chars().next_back().is_none_or(char::is_whitespace);
        if is_apart && !is_behind_space {
            self.chunks.push(Chunk::Text(" "));
        }
        self.chunks.push(Chunk::Mark(&self.source[node.open.clone()]));
        if node.kind != NodeKind::Literal {
            self.children(index, bytes);
        }
        self.chunks.push(Chunk::Mark(&self.source[node.close.clone()]));
        if is_apart && is_behind_space {
            self.chunks.push(Chunk::Text(" "));
        }
    }

    fn text(&mut self, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.chunks.push(Chunk::Text(&self.target[bytes]));
        }
    }
}
