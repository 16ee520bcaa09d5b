//! Unsigned integers that operations index with: token ids and lengths of rows.
//!
//! Clones share them, so that every layer of a model can hold the lengths of a batch.
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

/// A list of unsigned integers; clones share it.
#[derive(Debug, Clone)]
pub struct Indices {
    /// Empty if they are on a GPU.
    host: Arc<[u32]>,
    /// Number of entries in use, from the first.
    len: usize,
    #[cfg(feature = "cuda")]
    gpu: Option<crate::cuda::Array>,
}

impl Indices {
    /// The entries.
    ///
    /// # Panics
    /// If they are on a GPU.
    pub fn host(&self) -> &[u32] {
        assert!(self.host.len() >= self.len, "the indices are on a GPU");
        &self.host[..self.len]
    }

    /// True if the entries can be read here; false if they are on a GPU.
    pub fn is_on_host(&self) -> bool {
        self.host.len() >= self.len
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `count` entries, shared.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        assert!(count <= self.len, "the first {count} of {}", self.len);
        Self {
            host: Arc::clone(&self.host),
            len: count,
            #[cfg(feature = "cuda")]
            gpu: self.gpu.as_ref().map(|gpu| gpu.part(0..count)),
        }
    }

    /// The entries, in CPU memory, copied to `device`.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If they are on a GPU.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => Ok(self.clone()),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let gpu = crate::cuda::Array::constant(cuda, self.host());
                cuda.check()?;
                Ok(Self { host: Arc::from([]), len: self.len, gpu: Some(gpu) })
            }
        }
    }

    /// Overwrites entries that are on a GPU, in the order of its work; every clone sees the change. Has no effect on
    /// the CPU, where entries never change.
    ///
    /// # Panics
    /// If the number of entries differs.
    pub fn write(&self, numbers: &[u32]) {
        assert!(numbers.len() == self.len, "{} values for {}", numbers.len(), self.len);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            gpu.write(numbers);
        }
    }

    /// The same entries in CPU memory; waits for the GPU that holds them.
    #[cfg(feature = "cuda")]
    pub(crate) fn to_host(&self) -> Result<Self> {
        match &self.gpu {
            None => Ok(self.clone()),
            Some(gpu) => Ok(gpu.read::<u32>()?.into()),
        }
    }

    /// The entries, if they are on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_gpu(&self) -> Option<&crate::cuda::Array> {
        self.gpu.as_ref()
    }

    /// The entries on the GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn gpu(&self) -> &crate::cuda::Array {
        self.gpu.as_ref().expect("the indices are on a GPU")
    }
}

/// Lists in one buffer of a GPU, so that one copy overwrites all of them.
#[derive(Debug)]
pub struct Bundle {
    lists: Vec<Indices>,
    #[cfg(feature = "cuda")]
    whole: Option<crate::cuda::Array>,
}

/// Lists begin at multiples of this many entries: kernels read sixteen bytes at once.
#[cfg(feature = "cuda")]
const ALIGNMENT: usize = 64;

impl Bundle {
    /// Copies lists in CPU memory to `device`.
    ///
    /// # Errors
    /// If the GPU fails.
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
                    let gpu = Some(whole.part(start..start + list.len));
                    start += list.len.next_multiple_of(ALIGNMENT);
                    Indices { host: Arc::from([]), len: list.len, gpu }
                };
                Ok(Self { lists: lists.iter().map(part).collect(), whole: Some(whole) })
            }
        }
    }

    /// The lists, on their device.
    pub fn lists(&self) -> &[Indices] {
        &self.lists
    }

    /// Overwrites lists that are on a GPU with others of the same lengths, in the order of its work. Has no effect on
    /// the CPU.
    ///
    /// # Panics
    /// If the number of lists or a length differs.
    pub fn write(&self, lists: &[&Indices]) {
        let fits = lists.len() == self.lists.len();
        assert!(
            fits && lists.iter().zip(&self.lists).all(|(from, to)| from.len == to.len),
            "the lists have other lengths"
        );
        #[cfg(feature = "cuda")]
        if let Some(whole) = &self.whole {
            whole.write(&joined(lists));
        }
    }
}

/// Concatenates the lists, each padded to a multiple of the alignment.
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
        if let (Some(a), Some(b)) = (&self.gpu, &other.gpu) {
            return self.len == other.len && a.pointer() == b.pointer();
        }
        // Indices on a GPU never equal those in CPU memory.
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
            gpu: None,
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
