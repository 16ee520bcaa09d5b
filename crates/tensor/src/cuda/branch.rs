//! A second stream of a recording, for work whose result is needed only at the end of the backward pass.
//!
//! The gradient of an input is needed at once, that of a weight only by the optimiser. Recorded on a branch of its own,
//! the latter runs beside the backward pass wherever the GPU has room. Memory that a branch reads must not be reused
//! before the streams join, so it is retained until then. Outside of recordings there is no branch: all work is in one
//! order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::array::Array;
use super::device::{Cuda, OnDrop};
use super::memory::Piece;

/// Maximum bytes retained for the branch; beyond that the streams join.
const MAX_RETAINED: usize = 2 << 30;

/// The second stream.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) stream: sys::CUstream,
    /// Event at which one stream waits for the other.
    event: sys::CUevent,
    /// True while work is queued on the branch.
    taken: AtomicBool,
    /// True if it holds work that the main stream has not waited for.
    open: AtomicBool,
    retained: Mutex<Vec<Array>>,
    /// Memory allocated and dropped on the branch.
    left: Mutex<Vec<Piece>>,
}

impl Branch {
    pub(super) fn new() -> Result<Self, result::DriverError> {
        Ok(Self {
            stream: result::stream::create(result::stream::StreamKind::NonBlocking)?,
            event: result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
            taken: AtomicBool::new(false),
            open: AtomicBool::new(false),
            retained: Mutex::default(),
            left: Mutex::default(),
        })
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Retains memory that was used on the branch, so that the main stream does not reuse it yet.
    pub(super) fn leave(&self, piece: Piece) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }
}

impl Cuda {
    /// Queues `work` on the branch of a recording, or on the main stream if nothing is recorded. `reads` is retained
    /// until the streams join, and so is memory that `work` allocates and drops.
    pub(crate) fn on_branch(&self, reads: &[&Array], work: impl FnOnce()) {
        if !self.recording.load(Ordering::Relaxed) || self.has_failed() {
            return work();
        }
        self.wait([self.main_stream(), self.branch.stream]);
        self.branch.open.store(true, Ordering::Relaxed);
        self.branch.taken.store(true, Ordering::Relaxed);
        let after = OnDrop(|| self.branch.taken.store(false, Ordering::Relaxed));
        work();
        drop(after);
        let mut retained = self.branch.retained.lock().unwrap_or_else(PoisonError::into_inner);
        retained.extend(reads.iter().copied().cloned());
        let bytes: usize = retained.iter().map(|array| array.len() * array.dtype().bytes()).sum();
        drop(retained);
        if bytes > MAX_RETAINED {
            self.join_branch();
        }
    }

    /// Makes the main stream wait for the branch.
    pub(crate) fn join_branch(&self) {
        if self.branch.open.swap(false, Ordering::Relaxed) && !self.has_failed() {
            self.wait([self.branch.stream, self.main_stream()]);
        }
        self.branch.retained.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let left = std::mem::take(&mut *self.branch.left.lock().unwrap_or_else(PoisonError::into_inner));
        for piece in left {
            self.store().give(piece);
        }
    }

    /// Makes the second stream wait for all work queued on the first.
    fn wait(&self, [first, second]: [sys::CUstream; 2]) {
        // SAFETY: event and streams live as long as the device.
        let answer = unsafe {
            result::event::record(self.branch.event, first).and_then(|()| {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(second, self.branch.event, flags)
            })
        };
        self.note_result(answer, "joining streams");
    }
}
