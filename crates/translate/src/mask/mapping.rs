//! Byte positions of one text in another, such as of a masked sentence in its source.

use std::ops::Range;

/// Pairs of ranges in two texts, in the order of the first text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapping(Vec<(Range<usize>, Range<usize>)>);

impl Mapping {
    /// Appends a range and its counterpart.
    pub(super) fn push(&mut self, here: Range<usize>, there: Range<usize>) {
        if here.is_empty() && there.is_empty() {
            return;
        }
        if let Some((last, counterpart)) = self.0.last_mut() {
            let are_equal = last.len() == counterpart.len() && here.len() == there.len();
            if are_equal && last.end == here.start && counterpart.end == there.start {
                (last.end, counterpart.end) = (here.end, there.end);
                return;
            }
        }
        self.0.push((here, there));
    }

    /// The counterpart of a range; empty for an empty one.
    pub(crate) fn map(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.place(span.start, |there| there.start);
        let end = if span.is_empty() { start } else { self.place(span.end - 1, |there| there.end) };
        start..end.max(start)
    }

    /// One end of the counterpart of the byte at `at`, chosen by `side`.
    fn place(&self, at: usize, side: impl Fn(Range<usize>) -> usize) -> usize {
        let index = self.0.partition_point(|(here, _)| here.end <= at);
        let Some((here, there)) = self.0.get(index).or(self.0.last()) else { return 0 };
        if here.len() != there.len() {
            return side(there.clone());
        }
        let byte = there.start + at.saturating_sub(here.start);
        side(byte.min(there.end)..(byte + 1).min(there.end))
    }
}
