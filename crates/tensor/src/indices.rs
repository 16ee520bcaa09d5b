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

use crate::Result;
use crate::device::Device;

/// Whole numbers; cloning shares them.
#[derive(Debug, Clone)]
pub struct Indices {
    /// Empty where they are on a card.
    host: Arc<[u32]>,
    /// How many of them, from the first on.
    len: usize,
    #[cfg(feature = "cuda")]
    card: Option<crate::cuda::Array>,
}

impl Indices {
    /// The numbers.
    ///
    /// # Panics
    /// If they are on a card.
    pub fn host(&self) -> &[u32] {
        assert!(self.host.len() >= self.len, "the numbers are on a card");
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
        Self {
            host: Arc::clone(&self.host),
            len: count,
            #[cfg(feature = "cuda")]
            card: self.card.as_ref().map(|card| card.part(0..count)),
        }
    }

    /// The numbers of the processor, copied to `device`.
    ///
    /// # Errors
    /// If the card fails.
    ///
    /// # Panics
    /// If they are on a card.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => Ok(self.clone()),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let card = crate::cuda::Array::constant(cuda, self.host());
                cuda.check()?;
                Ok(Self { host: Arc::from([]), len: self.len, card: Some(card) })
            }
        }
    }

    /// Gives numbers that are on a card new values, in the order of its work; every clone sees them. Nothing happens to
    /// those of the processor, which are not changed.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn write(&self, numbers: &[u32]) {
        assert!(numbers.len() == self.len, "{} numbers for {}", numbers.len(), self.len);
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            card.write(numbers);
        }
    }

    /// The same numbers in the memory of the processor; waits for the card that has them.
    #[cfg(feature = "cuda")]
    pub(crate) fn to_host(&self) -> Result<Self> {
        match &self.card {
            None => Ok(self.clone()),
            Some(card) => Ok(card.read::<u32>()?.into()),
        }
    }

    /// The numbers on the card.
    #[cfg(feature = "cuda")]
    pub(crate) fn card(&self) -> &crate::cuda::Array {
        self.card.as_ref().expect("the numbers are on a card")
    }
}

/// Lists of numbers that lie in one piece of a card, so that one copy gives all of them new values.
#[derive(Debug)]
pub struct Bundle {
    lists: Vec<Indices>,
    #[cfg(feature = "cuda")]
    whole: Option<crate::cuda::Array>,
}

/// Lists begin at multiples of this many numbers: kernels read sixteen bytes at once.
#[cfg(feature = "cuda")]
const ALIGNMENT: usize = 64;

impl Bundle {
    /// Lists of the processor, copied to `device`.
    ///
    /// # Errors
    /// If the card fails.
    pub fn new(device: &Device, lists: &[&Indices]) -> Result<Self> {
        match device {
            Device::Cpu => Ok(Self {
                lists: lists.iter().map(|&list| list.clone()).collect(),
                #[cfg(feature = "cuda")]
                whole: None,
            }),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let whole = crate::cuda::Array::constant(cuda, &joined(lists));
                cuda.check()?;
                let mut start = 0;
                let part = |list: &&Indices| {
                    let card = Some(whole.part(start..start + list.len));
                    start += list.len.next_multiple_of(ALIGNMENT);
                    Indices { host: Arc::from([]), len: list.len, card }
                };
                Ok(Self { lists: lists.iter().map(part).collect(), whole: Some(whole) })
            }
        }
    }

    /// The lists where they are now.
    pub fn lists(&self) -> &[Indices] {
        &self.lists
    }

    /// Gives lists that are on a card the numbers of others of the same lengths, in the order of its work. Nothing happens
    /// to those of the processor.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn write(&self, lists: &[&Indices]) {
        let fits = lists.len() == self.lists.len();
        assert!(
            fits && lists.iter().zip(&self.lists).all(|(from, to)| from.len == to.len),
            "lists of one length"
        );
        #[cfg(feature = "cuda")]
        if let Some(whole) = &self.whole {
            whole.write(&joined(lists));
        }
    }
}

/// Lists one after the other, each from a multiple of the alignment on.
#[cfg(feature = "cuda")]
fn joined(lists: &[&Indices]) -> Vec<u32> {
    let mut all = Vec::new();
    for list in lists {
        all.extend_from_slice(list.host());
        all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
    }
    all
}

impl PartialEq for Indices {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(feature = "cuda")]
        if let (Some(a), Some(b)) = (&self.card, &other.card) {
            return self.len == other.len && a.pointer() == b.pointer();
        }
        // Those of a card equal none of the processor.
        self.len == other.len && self.host.get(..self.len) == other.host.get(..other.len)
    }
}

impl Eq for Indices {}

impl From<Arc<[u32]>> for Indices {
    fn from(host: Arc<[u32]>) -> Self {
        Self {
            len: host.len(),
            host,
            #[cfg(feature = "cuda")]
            card: None,
        }
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
