//! The causal mask, key ≤ query: no position attends to a later one (Vaswani et al. 2017, section 3.2.3).
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::causal().materialise(1, 2, 2), [true, false, true, true]);
//! assert_eq!(Mask::causal().materialise(1, 1, 3), [true, true, true]); // one query, at the third key
//! ```

use std::ops::Range;

use super::between;

/// key ≤ query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Causal;

impl Causal {
    #[expect(clippy::unused_self, reason = "all rules have the same interface")]
    pub(super) fn visible_from(self, position: usize, k_len: usize) -> Vec<Range<u32>> {
        between(0, k_len.min(position + 1))
    }
}
