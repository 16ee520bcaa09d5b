//! The position of each node in a translation.

use std::collections::HashSet;
use std::ops::Range;

use super::literals;
use super::word_parts::{Aligned, Pair, WordPart, align, origins};
use super::{Node, NodeKind};
use crate::words::words;

/// Maximum number of parts of other elements, or of none, that an element may enclose.
const MAX_GAP: usize = 4;

/// The positions of all nodes of a text.
#[derive(Debug)]
pub(super) struct Placed {
    /// Bytes of the translation that each node encloses; empty for a node without words there.
    pub(super) positions: Vec<Range<usize>>,
    /// The children of each node, by their beginning in the source; last those without a parent.
    pub(super) children: Vec<Vec<usize>>,
}

impl Placed {
    /// Places nodes; `alignment` has pairs of a source word and a target word.
    pub(super) fn new(source: &str, nodes: &[Node], target: &str, alignment: &[(usize, usize)]) -> Self {
        let mut cuts: Vec<usize> = nodes.iter().flat_map(|node| [node.text.start, node.text.end]).collect();
        cuts.sort_unstable();
        let origins = origins(words(source).len(), words(target).len(), alignment);
        let found = literals::find(source, nodes, target, &origins);
        let starts = found.iter().map(|found| found.source.start).collect();
        let aligned = align(&Pair { source, target, cuts, found }, &origins);
        let mut children = vec![Vec::new(); nodes.len() + 1];
        for (index, node) in nodes.iter().enumerate() {
            children[node.parent.unwrap_or(nodes.len())].push(index);
        }
        let parts = nodes.iter().map(|node| aligned.source.within(&node.text)).collect();
        let (sources, targets) = (aligned.source.parts.len(), aligned.target.parts.len());
        let neighbours = Neighbours::new(&aligned);
        let places = Places { nodes, parts, neighbours, aligned, found: starts };
        let mut placed = Self { positions: vec![0..0; nodes.len()], children };
        let all = Within { source: 0..sources, target: 0..targets, bytes: 0..target.len() };
        placed.level(&places, nodes.len(), &all);
        placed
    }

    /// Places the children of a node, and recursively theirs.
    fn level(&mut self, places: &Places<'_>, parent: usize, within: &Within) {
        let children = std::mem::take(&mut self.children[parent]);
        let intervals = places.intervals(&children, within);
        let mut spans: Vec<(Range<usize>, usize)> = Vec::new();
        for (&child, interval) in children.iter().zip(&intervals) {
            if let Some(interval) = interval {
                spans.push((places.bytes(interval), child));
            }
        }
        spans.sort_by_key(|(span, _)| span.start);
        let mut last_stray = 0;
        for (&child, interval) in children.iter().zip(&intervals) {
            let position = if let Some(interval) = interval {
                places.bytes(interval)
            } else {
                let at = places.position(child, within);
                let is_stray = places.nodes[child].kind == NodeKind::Stray;
                let at = if is_stray { at.max(last_stray) } else { at };
                let at = outside(&spans, at, |sibling| is_stray || sibling < child);
                if is_stray {
                    last_stray = at;
                }
                at..at
            };
            self.positions[child] = position.clone();
            let target = interval.clone().unwrap_or(0..0);
            let inside = Within { source: places.parts[child].clone(), target, bytes: position };
            self.level(places, child, &inside);
        }
        self.children[parent] = children;
    }
}

/// The extent of a node, which its children stay in.
struct Within {
    /// Its word parts in the source.
    source: Range<usize>,
    /// Its word parts in the translation.
    target: Range<usize>,
    /// Its bytes in the translation.
    bytes: Range<usize>,
}

struct Places<'a> {
    nodes: &'a [Node],
    /// The word parts of each node in the source.
    parts: Vec<Range<usize>>,
    neighbours: Neighbours,
    aligned: Aligned<'a>,
    /// Beginnings of the literals that occur unchanged in the translation.
    found: HashSet<usize>,
}

/// The nearest source parts that have a counterpart, and their counterparts.
struct Neighbours {
    /// The first and the last target part of each source part.
    ends: Vec<Option<(usize, usize)>>,
    /// The last aligned part up to each.
    before: Vec<Option<usize>>,
    /// The first aligned part from each on.
    after: Vec<Option<usize>>,
}

impl Neighbours {
    fn new(aligned: &Aligned<'_>) -> Self {
        let mut ends: Vec<Option<(usize, usize)>> = vec![None; aligned.source.parts.len()];
        for (target, origin) in aligned.origin.iter().enumerate() {
            if let Some(source) = origin {
                ends[*source] = Some((ends[*source].map_or(target, |ends| ends.0), target));
            }
        }
        let mut last = None;
        let mut nearest = |part: usize| {
            last = ends[part].map(|_| part).or(last);
            last
        };
        let before = (0..ends.len()).map(&mut nearest).collect();
        last = None;
        let mut nearest = |part: usize| {
            last = ends[part].map(|_| part).or(last);
            last
        };
        let mut after: Vec<Option<usize>> = (0..ends.len()).rev().map(&mut nearest).collect();
        after.reverse();
        Self { ends, before, after }
    }
}

impl Places<'_> {
    /// The parts of the translation that each child encloses; none for a child without words there.
    fn intervals(&self, children: &[usize], within: &Within) -> Vec<Option<Range<usize>>> {
        let with_words: Vec<usize> =
            (0..children.len()).filter(|place| !self.parts[children[*place]].is_empty()).collect();
        let mut best: Vec<Option<(Range<usize>, usize)>> = vec![None; children.len()];
        let mut finish = |(place, run, count): (usize, Range<usize>, usize)| {
            if best[place].as_ref().is_none_or(|(_, most)| count > *most) {
                best[place] = Some((run, count));
            }
        };
        let mut current: Option<(usize, Range<usize>, usize)> = None;
        for target in within.target.clone() {
            let Some(source) = self.aligned.origin[target] else { continue };
            let after = with_words.partition_point(|place| self.parts[children[*place]].start <= source);
            let Some(place) = after.checked_sub(1).map(|index| with_words[index]) else { continue };
            if source >= self.parts[children[place]].end {
                continue;
            }
            let max_gap = if self.nodes[children[place]].kind == NodeKind::Literal { 0 } else { MAX_GAP };
            current = match current.take() {
                Some((last, run, count)) if last == place && target - run.end <= max_gap => {
                    Some((place, run.start..target + 1, count + 1))
                }
                other => {
                    if let Some(run) = other {
                        finish(run);
                    }
                    Some((place, target..target + 1, 1))
                }
            };
        }
        if let Some(run) = current {
            finish(run);
        }
        let interval = |(child, best): (&usize, Option<(Range<usize>, usize)>)| {
            let parts = &self.parts[*child];
            let run = best.map(|(run, _)| run);
            if self.nodes[*child].kind == NodeKind::Literal {
                // A literal that was found is replaced; of other words no more than its own number.
                let is_found = self.found.contains(&self.nodes[*child].text.start);
                let replaced =
                    |run: &Range<usize>| if is_found { run.len() } else { run.len().min(parts.len()) };
                return run.map(|run| run.end - replaced(&run)..run.end);
            }
            let is_around_all = !parts.is_empty() && *parts == within.source && !within.target.is_empty();
            if is_around_all { Some(within.target.clone()) } else { run }
        };
        children.iter().zip(best).map(interval).collect()
    }

    /// The bytes of parts of the translation.
    fn bytes(&self, parts: &Range<usize>) -> Range<usize> {
        let found: &[WordPart] = &self.aligned.target.parts[parts.clone()];
        match found {
            [only] => only.range.clone(),
            [first, .., last] => first.range.start..last.range.end,
            [] => 0..0,
        }
    }

    /// The position of a node without words in the translation: next to the counterpart of its neighbour.
    fn position(&self, child: usize, within: &Within) -> usize {
        let (node, parts) = (&self.nodes[child], &self.parts[child]);
        if within.target.is_empty() || parts.start <= within.source.start {
            return within.bytes.start;
        }
        if parts.end >= within.source.end {
            return within.bytes.end;
        }
        let target = &self.aligned.target;
        let before = || {
            let source =
                self.neighbours.before[parts.start - 1].filter(|part| within.source.contains(part))?;
            let last = self.neighbours.ends[source]?.1;
            let word = if node.has_space_before {
                target.word_around(last)
            } else {
                target.parts[last].range.clone()
            };
            within.target.contains(&last).then_some(word.end)
        };
        let after = || {
            let source = self.neighbours.after[parts.end].filter(|part| within.source.contains(part))?;
            let first = self.neighbours.ends[source]?.0;
            let word = if node.has_space_after {
                target.word_around(first)
            } else {
                target.parts[first].range.clone()
            };
            within.target.contains(&first).then_some(word.start)
        };
        let is_before_a_word = node.has_space_before && !node.has_space_after;
        let found = if is_before_a_word { after().or_else(before) } else { before().or_else(after) };
        found.unwrap_or(within.bytes.end).clamp(within.bytes.start, within.bytes.end)
    }
}

/// `at`, moved out of the span around it: to the end of the span if the span comes first in the source, else to its
/// beginning.
fn outside(spans: &[(Range<usize>, usize)], at: usize, comes_first: impl Fn(usize) -> bool) -> usize {
    let next = spans.partition_point(|(span, _)| span.start < at);
    match next.checked_sub(1).map(|index| &spans[index]) {
        Some((span, sibling)) if span.end > at => {
            if comes_first(*sibling) {
                span.end
            } else {
                span.start
            }
        }
        _ => at,
    }
}
