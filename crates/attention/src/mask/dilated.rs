//! The dilated sliding window: key = query + i·dilation for −before ≤ i ≤ after (Beltagy, Peters & Cohan 2020), which
//! reaches `dilation` times further than a window of the same cost.
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::dilated(1, 2).materialise(1, 1, 5), [false, false, true, false, true]);
//! ```

use std::ops::Range;

use super::Window;

/// A sliding window with gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dilated {
    /// Number of keys before and after the query.
    pub window: Window,
    /// Distance between neighbouring keys, at least 1.
    pub dilation: usize,
}

impl Dilated {
    pub(super) fn visible_from(self, position: usize, k_len: usize) -> Vec<Range<u32>> {
        if self.dilation == 1 {
            return self.window.visible_from(position, k_len);
        }
        let n_before = self.window.before.min(position / self.dilation);
        let before = (1..=n_before).rev().map(|step| position - step * self.dilation);
        let after =
            (0..=self.window.after).map_while(|step| position.checked_add(step.checked_mul(self.dilation)?));
        let keys = before.chain(after.take_while(|&key| key < k_len));
        keys.map(|key| key as u32..key as u32 + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Mask;

    #[test]
    fn a_window_wider_than_any_sentence_costs_no_more() {
        let widest = Mask::dilated(usize::MAX, 2).materialise(1, 5, 5);
        assert_eq!(widest, Mask::dilated(2, 2).materialise(1, 5, 5));
    }
}
