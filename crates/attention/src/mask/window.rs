//! The sliding window: −before ≤ key − query ≤ after (Beltagy, Peters & Cohan 2020). The cost is linear in the length.
//!
//! ```
//! use polyhead_attention::Mask;
//! let local = Mask::window(1).and(Mask::causal());
//! assert_eq!(local.materialise(1, 3, 3), [true, false, false, true, true, false, false, true, true]);
//! ```

use std::ops::Range;

use super::between;

/// A window around the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Number of keys before the query.
    pub before: usize,
    /// Number of keys after the query.
    pub after: usize,
}

/// The same number of keys on each side.
impl From<usize> for Window {
    fn from(distance: usize) -> Self {
        Self { before: distance, after: distance }
    }
}

impl Window {
    pub(super) fn visible_from(self, position: usize, k_len: usize) -> Vec<Range<u32>> {
        between(
            position.saturating_sub(self.before),
            position.saturating_add(self.after).saturating_add(1).min(k_len),
        )
    }
}
