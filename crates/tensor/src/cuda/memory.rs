//! Reused memory of a GPU: a piece returns to its pool when its last owner is dropped.
//!
//! All work of a GPU goes through its main stream (a recording's branch retains its own memory), so a piece may be
//! given to the next operation while the last one that used it has yet to run: the stream preserves their order. Sizes
//! are an eighth apart. There are two pools. Memory that outlives a step comes from the general pool. Memory inside a
//! step comes from the scratch pool, whose addresses recorded graphs use again and again: nothing there may be kept
//! from one step to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use super::device::Cuda;

/// Pool that a piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemoryPool {
    General,
    Scratch,
}

/// Free pieces by pool and size, and totals in bytes.
#[derive(Debug, Default)]
pub(super) struct Store {
    free: BTreeMap<(MemoryPool, usize), Vec<u64>>,
    pub(super) held: usize,
    in_use: usize,
    pub(super) peak: usize,
}

/// Size of a piece for `bytes`: at most an eighth more, a multiple of 512.
fn size(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    bytes.next_multiple_of((1 << bytes.ilog2().saturating_sub(3)).max(512))
}

impl Store {
    /// A free piece, counted as in use: of that size, or in the scratch pool up to twice as large, so that batches of
    /// many sizes share the memory of the largest.
    fn find(&mut self, pool: MemoryPool, size: usize) -> Option<Piece> {
        let most = if pool == MemoryPool::Scratch { 2 * size } else { size };
        let (&(_, size), list) =
            self.free.range_mut((pool, size)..=(pool, most)).find(|(_, list)| !list.is_empty())?;
        let pointer = list.pop()?;
        self.count(size);
        Some(Piece { pointer, size, pool })
    }

    fn count(&mut self, size: usize) {
        self.in_use += size;
        self.peak = self.peak.max(self.in_use);
    }

    pub(super) fn give(&mut self, Piece { pointer, size, pool }: Piece) {
        self.in_use -= size;
        self.free.entry((pool, size)).or_default().push(pointer);
    }

    /// Removes all free pieces of the general pool, to be freed.
    fn take_free(&mut self) -> Vec<u64> {
        let mut gone = Vec::new();
        for (&(pool, size), list) in &mut self.free {
            if pool == MemoryPool::General {
                self.held -= size * list.len();
                gone.append(list);
            }
        }
        gone
    }
}

/// Address, size and pool of a piece of memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pointer: u64,
    size: usize,
    pool: MemoryPool,
}

/// A piece of GPU memory; returns to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(super) cuda: Arc<Cuda>,
    piece: Piece,
}

impl Storage {
    /// Allocates at least `bytes`, uninitialised. If there is no memory left, the error is recorded and the pointer is
    /// null.
    pub(super) fn new(cuda: &Arc<Cuda>, bytes: usize) -> Self {
        let (pool, size) = (cuda.memory_pool(), size(bytes));
        let nothing = Piece { pointer: 0, size, pool };
        let piece = if bytes == 0 { nothing } else { take(cuda, pool, size).unwrap_or(nothing) };
        Self { cuda: Arc::clone(cuda), piece }
    }

    pub(super) fn pointer(&self) -> u64 {
        self.piece.pointer
    }
}

/// A free piece, or a new one; `None` if there is no memory left, which is recorded as an error.
fn take(cuda: &Cuda, pool: MemoryPool, size: usize) -> Option<Piece> {
    let found = cuda.store().find(pool, size);
    if found.is_some() {
        return found;
    }
    cuda.bind();
    // SAFETY: plain allocations of the bound context; after the synchronisation nobody uses the free pieces. A stream
    // that records cannot be synchronised.
    let made = unsafe { result::malloc_sync(size) }.or_else(|error| unsafe {
        if cuda.recording.load(Ordering::Relaxed) {
            return Err(error);
        }
        let free = cuda.store().take_free();
        result::stream::synchronize(cuda.stream())?;
        free.into_iter().try_for_each(|pointer| result::free_sync(pointer))?;
        result::malloc_sync(size)
    });
    match made {
        Ok(pointer) => {
            let mut store = cuda.store();
            store.held += size;
            store.count(size);
            Some(Piece { pointer, size, pool })
        }
        Err(error) => {
            cuda.note_allocation_error(size, error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY, error);
            None
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.piece.pointer == 0 {
        } else if self.cuda.branch.is_taken() {
            self.cuda.branch.leave(self.piece);
        } else {
            self.cuda.store().give(self.piece);
        }
    }
}

/// Pinned memory for copies to the GPU: a ring of slots, each free again when its copy is done.
#[derive(Debug)]
pub(super) struct Staging {
    slots: Vec<StagingSlot>,
    next: usize,
}

#[derive(Debug)]
struct StagingSlot {
    host: *mut u8,
    size: usize,
    done: sys::CUevent,
}

/// Number of slots in the ring.
const SLOTS: usize = 32;

impl Staging {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), next: 0 }
    }

    /// Copies `bytes` to `target` in stream order.
    pub(super) fn copy(
        &mut self,
        stream: sys::CUstream,
        target: u64,
        bytes: &[u8],
    ) -> Result<(), result::DriverError> {
        // SAFETY: a slot is overwritten only after its last copy is done; the caller guarantees that `target` has room.
        unsafe {
            if self.slots.len() < SLOTS {
                let done = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
                self.slots.push(StagingSlot { host: std::ptr::null_mut(), size: 0, done });
            }
            let index = self.next % self.slots.len().max(1);
            self.next = (index + 1) % SLOTS;
            let slot = &mut self.slots[index];
            result::event::synchronize(slot.done)?;
            if slot.size < bytes.len() {
                if !slot.host.is_null() {
                    result::free_host(slot.host.cast())?;
                }
                slot.size = bytes.len().next_power_of_two();
                slot.host = result::malloc_host(slot.size, 0)?.cast();
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.host, bytes.len());
            let staged = std::slice::from_raw_parts(slot.host, bytes.len());
            result::memcpy_htod_async(target, staged, stream)?;
            result::event::record(slot.done, stream)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_waste_an_eighth_at_most() {
        for bytes in (1..40_000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let size = size(bytes);
            assert!(size >= bytes && size.is_multiple_of(512), "{bytes} became {size}");
            assert!(size <= bytes + bytes / 8 + 512, "{bytes} became {size}");
            assert_eq!(super::size(size), size);
        }
    }

    #[test]
    fn pools_do_not_mix() {
        let mut store = Store::default();
        store.count(512);
        store.give(Piece { pointer: 7, size: 512, pool: MemoryPool::Scratch });
        assert!(store.find(MemoryPool::General, 512).is_none());
        assert_eq!(store.find(MemoryPool::Scratch, 512).map(|piece| piece.pointer), Some(7));
    }

    #[test]
    fn scratch_of_a_large_batch_serves_smaller_ones() {
        let mut store = Store::default();
        for (pool, size, pointer) in
            [(MemoryPool::Scratch, 4096, 1), (MemoryPool::Scratch, 2048, 2), (MemoryPool::General, 4096, 3)]
        {
            store.count(size);
            store.give(Piece { pointer, size, pool });
        }
        let mut found = |pool, size| store.find(pool, size).map(|piece| (piece.pointer, piece.size));
        assert_eq!(found(MemoryPool::Scratch, 1536), Some((2, 2048)));
        assert_eq!(found(MemoryPool::Scratch, 1536), None);
        assert_eq!(found(MemoryPool::Scratch, 2048), Some((1, 4096)));
        assert_eq!(found(MemoryPool::General, 3072), None);
        assert_eq!(found(MemoryPool::General, 4096), Some((3, 4096)));
        assert_eq!(store.in_use, 2048 + 4096 + 4096);
    }
}
