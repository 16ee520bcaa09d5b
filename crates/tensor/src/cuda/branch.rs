//! A second stream of work inside a recording: what nobody waits for until the end of the way back.
//!
//! The gradient of an input is needed at once, that of a weight only by the optimiser. Recorded on a branch of its own,
//! the latter runs beside the way back wherever the card has room. The memory that a branch reads may not be used again
//! before both meet, so it is kept until then. Outside of recordings there is no branch: everything has one order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::array::Array;
use super::device::{Afterwards, Cuda};
use super::memory::Piece;

/// Bytes kept for the branch at most; then the streams meet.
const MOST_KEPT: usize = 2 << 30;

/// The second stream.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) stream: sys::CUstream,
    /// Marks the place where one stream waits for the other.
    event: sys::CUevent,
    /// Whether work is queued there now.
    taken: AtomicBool,
    /// Whether it holds work that the main stream has not waited for.
    open: AtomicBool,
    kept: Mutex<Vec<Array>>,
    /// Memory that was made and left there.
    left: Mutex<Vec<Piece>>,
}

impl Branch {
    pub(super) fn new() -> Result<Self, result::DriverError> {
        Ok(Self {
            stream: result::stream::create(result::stream::StreamKind::NonBlocking)?,
            event: result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
            taken: AtomicBool::new(false),
            open: AtomicBool::new(false),
            kept: Mutex::default(),
            left: Mutex::default(),
        })
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Keeps memory that was used on the branch from the main stream.
    pub(super) fn leave(&self, piece: Piece) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }
}

impl Cuda {
    /// Queues what `work` does on the branch of a recording, or as usual where nothing is recorded. `reads` is kept until
    /// both streams meet, and so is memory that `work` makes and leaves.
    pub(crate) fn aside(&self, reads: &[&Array], work: impl FnOnce()) {
        if !self.recording.load(Ordering::Relaxed) || self.has_failed() {
            return work();
        }
        self.wait([self.main_stream(), self.branch.stream]);
        self.branch.open.store(true, Ordering::Relaxed);
        self.branch.taken.store(true, Ordering::Relaxed);
        let after = Afterwards(|| self.branch.taken.store(false, Ordering::Relaxed));
        work();
        drop(after);
        let mut kept = self.branch.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(reads.iter().copied().cloned());
        let bytes: usize = kept.iter().map(|array| array.len() * array.dtype().bytes()).sum();
        drop(kept);
        if bytes > MOST_KEPT {
            self.meet();
        }
    }

    /// Lets the main stream wait for the branch.
    pub(crate) fn meet(&self) {
        if self.branch.open.swap(false, Ordering::Relaxed) && !self.has_failed() {
            self.wait([self.branch.stream, self.main_stream()]);
        }
        self.branch.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let left = std::mem::take(&mut *self.branch.left.lock().unwrap_or_else(PoisonError::into_inner));
        for piece in left {
            self.store().give(piece);
        }
    }

    /// Lets the second stream wait for all that the first has been given.
    fn wait(&self, [first, second]: [sys::CUstream; 2]) {
        // SAFETY: event and streams live as long as the card.
        let answer = unsafe {
            result::event::record(self.branch.event, first).and_then(|()| {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(second, self.branch.event, flags)
            })
        };
        self.keep(answer, "joining streams");
    }
}
