//! Attention patterns, prepared in blocks: keys that no query of a block attends to are never computed.
//!
//! Queries that attend to the same or nearby keys are grouped. In a dilated window they are `stride` apart, so that a
//! block has few more keys than one query. A query that attends to many more keys than its neighbours (global
//! attention) closes its block early, so the cost is proportional to the number of visible keys.

use std::borrow::Cow;
use std::ops::Range;

use super::block::{Block, Run};

/// Maximum number of queries in a block.
pub(super) const MAX_QUERIES: usize = 56;
/// Scores that a block may waste in addition to three times those it needs.
const FREE_WASTE: usize = 64 * MAX_QUERIES;

/// Attention pattern: the keys visible to every query, in blocks.
#[derive(Debug, Clone)]
pub struct Pattern {
    q_len: usize,
    k_len: usize,
    blocks: Vec<PatternBlock>,
    band: Option<[usize; 2]>,
}

#[derive(Debug, Clone)]
struct PatternBlock {
    queries: Run,
    keys: Vec<Run>,
    n_keys: usize,
    seen: Vec<Vec<Range<u32>>>,
}

impl Pattern {
    /// Creates a pattern from the keys visible to each query, as ascending ranges that do not touch. Queries `stride`
    /// apart attend to nearby keys; 1 unless the windows are dilated.
    ///
    /// # Panics
    /// If a range is empty, out of order or beyond `k_len`, or the stride is 0.
    pub fn new(visible: &[Vec<Range<u32>>], k_len: usize, stride: usize) -> Self {
        for ranges in visible {
            let ordered = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
            let sound = ranges.iter().all(|range| range.start < range.end && range.end as usize <= k_len);
            assert!(ordered && sound, "ranges of keys out of order or beyond {k_len}: {ranges:?}");
        }
        let q_len = visible.len();
        let mut blocks = Vec::new();
        for residue in 0..stride.min(q_len) {
            let mut first = residue;
            while first < q_len {
                let block = gather(visible, first, stride);
                first += block.queries.count * stride;
                blocks.push(block);
            }
        }
        Self { q_len, k_len, blocks, band: band_of(visible, k_len) }
    }

    /// Number of keys before and after a query's position that it attends to, if these are the same for all queries and
    /// there are no others; the last query is at the last key.
    pub fn band(&self) -> Option<[usize; 2]> {
        self.band
    }

    /// Number of queries and keys.
    pub fn lengths(&self) -> [usize; 2] {
        [self.q_len, self.k_len]
    }

    /// Number of scores computed, a measure of the work.
    pub fn n_scores(&self) -> usize {
        self.blocks.iter().map(|block| block.queries.count * block.n_keys).sum()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.blocks.iter().map(|block| Block {
            queries: block.queries,
            keys: Cow::Borrowed(&block.keys),
            n_keys: block.n_keys,
            seen: Some(&block.seen),
        })
    }
}

/// See [`Pattern::band`].
fn band_of(visible: &[Vec<Range<u32>>], k_len: usize) -> Option<[usize; 2]> {
    let offset = k_len.checked_sub(visible.len())?;
    let mut band = [0, 0];
    for (ranges, position) in visible.iter().zip(offset..) {
        let [range] = &ranges[..] else { return None };
        let [start, last] = [range.start as usize, range.end as usize - 1];
        band = [band[0].max(position.checked_sub(start)?), band[1].max(last.checked_sub(position)?)];
    }
    let is_band = visible.iter().zip(offset..).all(|(ranges, position)| {
        let range = position.saturating_sub(band[0])..(position + band[1] + 1).min(k_len);
        ranges[0] == (range.start as u32..range.end as u32)
    });
    is_band.then_some(band)
}

/// The block that begins with query `first`.
fn gather(visible: &[Vec<Range<u32>>], first: usize, stride: usize) -> PatternBlock {
    let mut union = visible[first].clone();
    let mut needed = size(&union);
    let mut count = 1;
    while count < MAX_QUERIES && first + count * stride < visible.len() {
        let next = &visible[first + count * stride];
        let joined = join(&union, next);
        let wanted = needed + size(next);
        if size(&joined) * (count + 1) > 4 * wanted + FREE_WASTE {
            break;
        }
        (union, needed, count) = (joined, wanted, count + 1);
    }
    let queries = Run { first, count, step: stride };
    let seen = queries.positions().map(|query| columns(&union, &visible[query])).collect();
    PatternBlock { queries, keys: runs(&union), n_keys: size(&union), seen }
}

fn size(ranges: &[Range<u32>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Union of two ascending lists of ranges; ranges that touch are merged.
pub fn join(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut out: Vec<Range<u32>> = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let take_a = match (a.peek(), b.peek()) {
            (Some(left), Some(right)) => left.start <= right.start,
            (left, _) => left.is_some(),
        };
        let Some(range) = (if take_a { a.next() } else { b.next() }) else { return out };
        match out.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => out.push(range.clone()),
        }
    }
}

/// Positions of the keys of `ranges` among those of `union`, as ranges of columns.
fn columns(union: &[Range<u32>], ranges: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut out: Vec<Range<u32>> = Vec::new();
    let (mut before, mut whole) = (0, union.iter());
    let mut current = whole.next();
    for range in ranges {
        while let Some(part) = current.filter(|part| part.end <= range.start) {
            before += part.len() as u32;
            current = whole.next();
        }
        let part = current.expect("the union covers every range");
        let start = before + range.start - part.start;
        let end = start + range.len() as u32;
        match out.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => out.push(start..end),
        }
    }
    out
}

/// The keys of `ranges` as runs: long ranges unchanged, evenly spaced single keys combined.
fn runs(ranges: &[Range<u32>]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for range in ranges {
        let (first, count) = (range.start as usize, range.len());
        if let Some(last) = out.last_mut().filter(|last| count == 1 && (last.count == 1 || last.step > 1)) {
            let step = first - last.first;
            if last.count == 1 {
                (last.count, last.step) = (2, step);
                continue;
            }
            if first == last.first + last.count * last.step {
                last.count += 1;
                continue;
            }
        }
        out.push(Run { first, count, step: 1 });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(start: u32, end: u32) -> Vec<Range<u32>> {
        std::iter::once(start..end).collect()
    }

    /// Windows of two keys to each side, `dilation` apart.
    fn windows(len: usize, dilation: usize) -> Vec<Vec<Range<u32>>> {
        let keys = |query: usize| {
            (0..len).filter(move |key| {
                query.abs_diff(*key) % dilation == 0 && query.abs_diff(*key) <= 2 * dilation
            })
        };
        (0..len)
            .map(|query| {
                keys(query).fold(Vec::new(), |sum, key| join(&sum, &one(key as u32, key as u32 + 1)))
            })
            .collect()
    }

    #[test]
    fn blocks_cover_every_query_and_its_keys_once() {
        for (len, dilation) in [(1, 1), (7, 1), (200, 1), (200, 3), (50, 7)] {
            let visible = windows(len, dilation);
            let pattern = Pattern::new(&visible, len, dilation);
            let mut met = vec![0; len];
            for block in pattern.blocks() {
                let keys: Vec<usize> = block.keys_by_column().map(|(_, key)| key).collect();
                assert!(keys.is_sorted() && keys.len() == block.n_keys);
                for (offset, query) in block.queries().enumerate() {
                    met[query] += 1;
                    let seen = block.seen.unwrap()[offset].iter().flat_map(Clone::clone);
                    let seen: Vec<u32> = seen.map(|column| keys[column as usize] as u32).collect();
                    let expected: Vec<u32> = visible[query].iter().cloned().flatten().collect();
                    assert_eq!(seen, expected, "query {query} of {len}, dilation {dilation}");
                }
            }
            assert!(met.iter().all(|&met| met == 1));
        }
    }

    #[test]
    fn a_window_is_a_band_and_other_patterns_are_not() {
        let window = |len: usize, offset: usize, band: [usize; 2]| -> Vec<Vec<Range<u32>>> {
            (offset..len)
                .map(|at| one(at.saturating_sub(band[0]) as u32, (at + band[1] + 1).min(len) as u32))
                .collect()
        };
        for (len, offset, band) in [(20, 0, [3, 0]), (20, 0, [2, 5]), (20, 7, [4, 1]), (9, 0, [0, 0])] {
            assert_eq!(Pattern::new(&window(len, offset, band), len, 1).band(), Some(band));
        }
        assert_eq!(Pattern::new(&window(5, 0, [9, 0]), 5, 1).band(), Some([4, 0]));
        let mut other = window(20, 0, [3, 0]);
        other[9] = one(5, 10);
        assert_eq!(Pattern::new(&other, 20, 1).band(), None);
        assert_eq!(Pattern::new(&windows(20, 3), 20, 3).band(), None);
        other[9] = Vec::new();
        assert_eq!(Pattern::new(&other, 20, 1).band(), None);
    }

    #[test]
    fn work_grows_with_the_number_of_visible_keys() {
        let scores = |len| Pattern::new(&windows(len, 4), len, 4).n_scores();
        let len = 4 * 10 * MAX_QUERIES;
        assert!(scores(len) <= len * (MAX_QUERIES + 4) && scores(2 * len) <= 2 * scores(len) + 1000);
    }

    #[test]
    fn a_global_query_does_not_make_its_neighbours_expensive() {
        let mut visible = windows(1000, 1);
        visible[0] = one(0, 1000);
        visible[500] = one(0, 1000);
        let scores = Pattern::new(&visible, 1000, 1).n_scores();
        assert!(scores < 1000 * 70 + 14_000, "{scores}");
    }
}
