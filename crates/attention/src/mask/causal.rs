//! No query sees the future: key ≤ query (Vaswani et al. 2017, section 3.2.3).
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::causal().materialise(1, 2, 2), [true, false, true, true]);
//! assert_eq!(Mask::causal().materialise(1, 1, 3), [true, true, true]); // one more query, after two keys
//! ```

use std::ops::Range;

use super::between;

/// key ≤ query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Causal;

impl Causal {
    #[expect(clippy::unused_self, reason = "all rules are asked in the same way")]
    pub(super) fn seen_from(self, place: usize, k_len: usize) -> Vec<Range<u32>> {
        between(0, k_len.min(place + 1))
    }
}
