//! Global tokens: positions that attend to all and are attended to by all (Beltagy, Peters & Cohan 2020), usually combined
//! with a window.
//!
//! ```
//! use polyhead_attention::Mask;
//! let mask = Mask::window(0).or(Mask::global(vec![1]));
//! assert_eq!(mask.materialise(1, 3, 3), [true, true, false, true, true, true, false, true, true]);
//! ```

use std::ops::Range;

use super::{intersection, whole};

/// Positions that attend to all and are attended to by all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// In ascending order; neighbouring positions form one range.
    ranges: Vec<Range<u32>>,
}

impl Global {
    pub(super) fn new(mut positions: Vec<usize>) -> Self {
        // Positions are stored as u32; no sequence is that long.
        positions.retain(|&position| position < u32::MAX as usize);
        positions.sort_unstable();
        positions.dedup();
        let runs = positions.chunk_by(|a, b| a + 1 == *b);
        Self { ranges: runs.map(|run| run[0] as u32..run[run.len() - 1] as u32 + 1).collect() }
    }

    pub(super) fn visible_from(&self, position: usize, k_len: usize) -> Vec<Range<u32>> {
        let all = whole(k_len);
        let is_global = self.ranges.iter().any(|range| range.contains(&(position as u32)));
        if is_global { all } else { intersection(&self.ranges, &all) }
    }
}
