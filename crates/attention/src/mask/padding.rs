//! The padding mask: rows of a batch have different lengths, and no query attends to padding.
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::padding(vec![2, 1]).materialise(2, 1, 2), [true, true, true, false]);
//! ```

use polyhead_tensor::Indices;

/// key < length of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Padding {
    /// The length of each row of the batch.
    pub lengths: Indices,
}

impl Padding {
    /// The shorter length of each row; both have the same number of rows.
    pub(super) fn shorter(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => {
                let both = a.lengths.host().iter().zip(b.lengths.host());
                let lengths = both.map(|(a, b)| *a.min(b)).collect();
                Some(Self { lengths })
            }
            (a, b) => a.or(b),
        }
    }
}
