//! Arrays of plain numbers, in memory or in a mapped file.

use std::ops::Deref;
use std::sync::Arc;

use memmap2::Mmap;

/// Types whose every bit pattern is a value and which have no padding.
///
/// # Safety
/// Implementors are `repr(C)` structs of four-byte numbers without padding.
pub(crate) unsafe trait Plain: Copy + Default + Send + Sync + 'static {}

// SAFETY: a number of four bytes.
unsafe impl Plain for u32 {}
// SAFETY: a number of four bytes.
unsafe impl Plain for f32 {}
// SAFETY: a number of one byte.
unsafe impl Plain for u8 {}

/// An array, in memory or in a mapped file.
#[derive(Debug, Clone)]
pub(crate) enum Table<T> {
    Owned(Vec<T>),
    Mapped { file: Arc<Mmap>, start: usize, len: usize },
}

impl<T: Plain> Table<T> {
    /// The `len` elements of a file from byte `start` on; `None` if they are outside it or not aligned.
    pub(crate) fn mapped(file: &Arc<Mmap>, start: usize, len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let slice = file.get(start..start.checked_add(bytes)?)?;
        let is_aligned = slice.as_ptr().align_offset(align_of::<T>()) == 0;
        is_aligned.then(|| Self::Mapped { file: Arc::clone(file), start, len })
    }

    /// The bytes of the elements, in the byte order of this machine.
    pub(crate) fn bytes(&self) -> &[u8] {
        let items: &[T] = self;
        // SAFETY: `Plain` types have no padding, and any byte may be read.
        unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
    }
}

impl<T: Plain> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(items) => items,
            Self::Mapped { file, start, len } => {
                let first = file[*start..].as_ptr();
                // SAFETY: `mapped` checked bounds and alignment, and every bit pattern is a value. The mapping is
                // private to this process and the file is written under another name and renamed, never in place.
                unsafe { std::slice::from_raw_parts(first.cast(), *len) }
            }
        }
    }
}
