//! Global tokens: some positions see all and are seen by all (Beltagy, Peters & Cohan 2020), usually joined with a window.
//!
//! ```
//! use polyhead_attention::Mask;
//! let mask = Mask::window(0).or(Mask::global(vec![1]));
//! assert_eq!(mask.materialise(1, 3, 3), [true, true, false, true, true, true, false, true, true]);
//! ```

use std::ops::Range;

use super::{between, whole};

/// Positions that see all and are seen by all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// In rising order, each once.
    positions: Vec<usize>,
}

impl Global {
    pub(super) fn new(mut positions: Vec<usize>) -> Self {
        positions.sort_unstable();
        positions.dedup();
        Self { positions }
    }

    pub(super) fn seen_from(&self, place: usize, k_len: usize) -> Vec<Range<u32>> {
        if self.positions.binary_search(&place).is_ok() {
            return whole(k_len);
        }
        let keys = self.positions.iter().take_while(|&&key| key < k_len);
        let mut out: Vec<Range<u32>> = Vec::new();
        for range in keys.flat_map(|&key| between(key, key + 1)) {
            match out.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => out.push(range),
            }
        }
        out
    }
}
