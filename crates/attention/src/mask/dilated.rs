//! A window with gaps: key = query + i·dilation for −before ≤ i ≤ after (Beltagy, Peters & Cohan 2020), which sees `dilation`
//! times further for the same cost.
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::dilated(1, 2).materialise(1, 1, 5), [false, false, true, false, true]);
//! ```

use std::ops::Range;

use super::Window;

/// Every so many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dilated {
    /// How many before the query and after it.
    pub window: Window,
    /// From one to the next, at least 1.
    pub dilation: usize,
}

impl Dilated {
    pub(super) fn seen_from(self, place: usize, k_len: usize) -> Vec<Range<u32>> {
        if self.dilation == 1 {
            return self.window.seen_from(place, k_len);
        }
        let before = (1..=self.window.before)
            .rev()
            .filter_map(|step| place.checked_sub(step.checked_mul(self.dilation)?));
        let after =
            (0..=self.window.after).map_while(|step| place.checked_add(step.checked_mul(self.dilation)?));
        let keys = before.chain(after.take_while(|&key| key < k_len));
        keys.map(|key| key as u32..key as u32 + 1).collect()
    }
}
