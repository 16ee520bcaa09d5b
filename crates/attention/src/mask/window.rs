//! A sliding window: −before ≤ key − query ≤ after (Beltagy, Peters & Cohan 2020). Cost grows linearly with length.
//!
//! ```
//! use polyhead_attention::Mask;
//! let local = Mask::window(1).and(Mask::causal());
//! assert_eq!(local.materialise(1, 3, 3), [true, false, false, true, true, false, false, true, true]);
//! ```

use std::ops::Range;

use super::between;

/// Keys near the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Keys before the query.
    pub before: usize,
    /// Keys after it.
    pub after: usize,
}

/// As many to each side.
impl From<usize> for Window {
    fn from(distance: usize) -> Self {
        Self { before: distance, after: distance }
    }
}

impl Window {
    pub(super) fn seen_from(self, place: usize, k_len: usize) -> Vec<Range<u32>> {
        between(
            place.saturating_sub(self.before),
            place.saturating_add(self.after).saturating_add(1).min(k_len),
        )
    }
}
