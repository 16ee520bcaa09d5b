//! Padding: rows of a batch have different lengths, and nobody attends to what fills them up.
//!
//! ```
//! use polyhead_attention::Mask;
//! assert_eq!(Mask::padding(vec![2, 1]).materialise(2, 1, 2), [true, true, true, false]);
//! ```

/// key < the length of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Padding {
    /// Of each row of the batch.
    pub lengths: Vec<usize>,
}

impl Padding {
    /// What exists for both; they have as many rows.
    pub(super) fn shorter(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => {
                let lengths = a.lengths.into_iter().zip(b.lengths).map(|(a, b)| a.min(b)).collect();
                Some(Self { lengths })
            }
            (a, b) => a.or(b),
        }
    }
}
