//! Writes a translation with its nodes at their positions.

use std::ops::Range;

use super::place::Placed;
use super::{Node, NodeKind, Output};

/// Writes a translation with its nodes.
pub(super) fn write<'a>(target: &'a str, nodes: &[Node], placed: &Placed, output: &mut Vec<Output<'a>>) {
    let mut writer = Writer { target, nodes, placed, output };
    writer.children(nodes.len(), 0..target.len());
}

struct Writer<'a, 'p> {
    target: &'a str,
    nodes: &'p [Node],
    placed: &'p Placed,
    output: &'p mut Vec<Output<'a>>,
}

impl Writer<'_, '_> {
    /// Writes bytes of the translation with the children of a node.
    fn children(&mut self, parent: usize, bytes: Range<usize>) {
        let mut children = self.placed.children[parent].clone();
        children.sort_by_key(|child| self.placed.positions[*child].start);
        let mut at = bytes.start;
        for child in children {
            let position = &self.placed.positions[child];
            let start = position.start.clamp(at, bytes.end);
            self.text(at..start);
            let end = position.end.clamp(start, bytes.end);
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
        // No space is added inside a word, or where one side has white space already.
        let is_space = |letter: Option<char>| letter.is_none_or(char::is_whitespace);
        let left = is_space(self.target[..bytes.start].chars().next_back());
        let right = is_space(self.target[bytes.end..].chars().next());
        if before && !left && right {
            self.output.push(Output::Text(" "));
        }
        self.output.push(Output::Markup(node.open.clone()));
        if node.kind != NodeKind::Literal {
            self.children(index, bytes);
        }
        self.output.push(Output::Markup(node.close.clone()));
        if after && left && !right {
            self.output.push(Output::Text(" "));
        }
    }

    fn text(&mut self, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.output.push(Output::Text(&self.target[bytes]));
        }
    }
}
