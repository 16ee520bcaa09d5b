//! Whole numbers that tell operations where to look: ids of tokens, lengths of rows.
//!
//! Cloning shares them, so that every layer of a model can hold the lengths of a batch.
//!
//! ```
//! use polyhead_tensor::Indices;
//! let ids = Indices::from([5, 6, 2]);
//! assert_eq!((ids.host(), ids.len()), (&[5, 6, 2][..], 3));
//! assert_eq!(ids.first(2).host(), [5, 6]);
//! ```

use std::sync::Arc;

/// Whole numbers; cloning shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices {
    host: Arc<[u32]>,
    /// How many of them, from the first on.
    len: usize,
}

impl Indices {
    /// The numbers.
    pub fn host(&self) -> &[u32] {
        &self.host[..self.len]
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without numbers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `count` of them, shared.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        assert!(count <= self.len, "the first {count} of {}", self.len);
        Self { host: Arc::clone(&self.host), len: count }
    }
}

impl From<Arc<[u32]>> for Indices {
    fn from(host: Arc<[u32]>) -> Self {
        Self { len: host.len(), host }
    }
}

impl From<Vec<u32>> for Indices {
    fn from(numbers: Vec<u32>) -> Self {
        Self::from(Arc::from(numbers))
    }
}

impl From<&[u32]> for Indices {
    fn from(numbers: &[u32]) -> Self {
        Self::from(Arc::from(numbers))
    }
}

impl<const N: usize> From<[u32; N]> for Indices {
    fn from(numbers: [u32; N]) -> Self {
        Self::from(Arc::from(numbers.as_slice()))
    }
}

impl FromIterator<u32> for Indices {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> Self {
        Self::from(Arc::from_iter(numbers))
    }
}
