//! A block of queries that are processed together, and the keys that any of them attends to.

use std::borrow::Cow;
use std::ops::Range;

use super::rows::VisibleColumns;

/// Largest number of keys whose scores are computed at once when a block of queries attends to all keys: scores, weights
/// and gradients of one part stay in the L2 cache.
pub(super) const MAX_KEYS: usize = 1024;

/// `count` positions from `first`, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) step: usize,
}

impl Run {
    pub(super) fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.first + index * self.step)
    }

    /// Number of its positions below `limit`.
    fn below(self, limit: usize) -> usize {
        limit.saturating_sub(self.first).div_ceil(self.step).min(self.count)
    }
}

/// Some queries and the keys that any of them attends to; scores have a row per query and a column per key.
#[derive(Debug, Clone)]
pub(super) struct Block<'a> {
    pub(super) queries: Run,
    /// In ascending order.
    pub(super) keys: Cow<'a, [Run]>,
    pub(super) n_keys: usize,
    /// For each query its visible columns; `None` if the plan gives them for each query.
    pub(super) seen: Option<&'a [Vec<Range<u32>>]>,
}

impl Block<'_> {
    /// `count` queries from `first` that attend to some of the first `n_keys` keys.
    pub(super) fn dense(first: usize, count: usize, n_keys: usize) -> Self {
        let keys = Cow::Owned(vec![Run { first: 0, count: n_keys, step: 1 }]);
        Self { queries: Run { first, count, step: 1 }, keys, n_keys, seen: None }
    }

    /// The same block without the keys from `limit`.
    pub(super) fn clipped(mut self, limit: usize) -> Self {
        if self.keys.last().is_some_and(|run| run.below(limit) < run.count) {
            self.keys.to_mut().iter_mut().for_each(|run| run.count = run.below(limit));
            self.n_keys = self.keys.iter().map(|run| run.count).sum();
        }
        self
    }

    pub(super) fn queries(&self) -> impl Iterator<Item = usize> {
        self.queries.positions()
    }

    /// Runs of keys, each with its first column.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, Run)> {
        let mut column = 0;
        self.keys.iter().filter(|run| run.count > 0).map(move |run| {
            column += run.count;
            (column - run.count, *run)
        })
    }

    /// First query and first key, if neither queries nor keys have gaps.
    pub(super) fn corner(&self) -> Option<[usize; 2]> {
        match &*self.keys {
            &[Run { first, step: 1, .. }] if self.queries.step == 1 => Some([self.queries.first, first]),
            _ => None,
        }
    }

    /// Every column with its key.
    pub(super) fn keys_by_column(&self) -> impl Iterator<Item = (usize, usize)> {
        self.keys.iter().flat_map(|run| run.positions()).enumerate()
    }

    /// True if the scores are computed for `MAX_KEYS` keys at a time.
    pub(super) fn has_parts(&self) -> bool {
        self.seen.is_none() && self.n_keys > MAX_KEYS
    }

    /// The same queries with some of the keys each, one after the other.
    pub(super) fn parts(&self) -> impl Iterator<Item = Block<'_>> {
        let whole = (!self.has_parts()).then(|| Block { keys: Cow::Borrowed(&self.keys), ..*self });
        let end = if self.has_parts() { self.n_keys } else { 0 };
        let parts = (0..end).step_by(MAX_KEYS).map(move |first| {
            let count = MAX_KEYS.min(end - first);
            let keys = Cow::Owned(vec![Run { first, count, step: 1 }]);
            Block { queries: self.queries, keys, n_keys: count, seen: None }
        });
        whole.into_iter().chain(parts)
    }

    /// Number of columns of the first `prefix` keys, if the keys have no gaps.
    pub(super) fn seen_prefix(&self, prefix: usize) -> usize {
        let first = self.keys.first().map_or(0, |run| run.first);
        prefix.saturating_sub(first).min(self.n_keys)
    }

    /// The columns that the query of row `offset` attends to; those of the first `prefix` keys if the block has no
    /// pattern.
    pub(super) fn seen(&self, offset: usize, prefix: usize) -> VisibleColumns<'_> {
        match self.seen {
            None => VisibleColumns::One(0, self.seen_prefix(prefix)),
            Some(seen) => match seen[offset].as_slice() {
                [] => VisibleColumns::One(0, 0),
                [range] => {
                    let end = (range.end as usize).min(self.n_keys);
                    VisibleColumns::One((range.start as usize).min(end), end)
                }
                ranges => VisibleColumns::Several(ranges, self.n_keys),
            },
        }
    }
}
