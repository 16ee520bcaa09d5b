//! One call of the explorer's API: its memory, its turn, and when it has to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::front::budget::MemoryReservation;
use crate::{Error, Result};

/// A call that was read.
#[derive(Debug)]
pub(super) struct Call {
    /// Memory of the request, the work and the answer.
    pub(super) memory: MemoryReservation,
    pub(super) stop: Stop,
    /// Its place among the waiting calls.
    pub(super) _place: MemoryReservation,
    /// Its turn, which lasts as long as the work, even after the client has disconnected.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// Reserves memory for the work.
    ///
    /// # Errors
    /// 413 if it can never be had, 429 or 503 if others have it now.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<()> {
        let most = self.memory.largest();
        if bytes > most {
            let [found, limit] = [bytes, most].map(|bytes| format!("{} MiB", bytes.div_ceil(1 << 20)));
            return Err(Error::TooLarge { found: format!("about {found} of memory for this text"), limit });
        }
        Ok(self.memory.grow(bytes)?)
    }

    /// An error if the work should end.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.is_over() { Err(self.stop.late()) } else { Ok(()) }
    }

    /// The result of the work as the answer; an error says if it came from the deadline.
    pub(super) fn finish(self, found: Result<String>) -> Result<CallAnswer> {
        let Self { memory, stop, .. } = self;
        match found {
            Ok(json) => Ok(CallAnswer { json, memory }),
            Err(_) if stop.is_late() => Err(stop.late()),
            Err(error) => Err(error),
        }
    }
}

/// The JSON of an answer, and its memory.
pub(super) struct CallAnswer {
    json: String,
    memory: MemoryReservation,
}

impl CallAnswer {
    /// Its bytes and `end`, counted until they are read.
    pub(super) fn counted(self, end: &str) -> Bytes {
        let mut json = self.json;
        json.push_str(end);
        self.memory.counted(json)
    }
}

/// When a call has to stop: at its deadline, or when nobody waits for it.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    deadline: Instant,
    limit: Duration,
    is_cancelled: Arc<AtomicBool>,
}

impl Stop {
    pub(super) fn new(limit: Duration) -> Self {
        Self { deadline: Instant::now() + limit, limit, is_cancelled: Arc::default() }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// True if the work should end.
    pub(super) fn is_over(&self) -> bool {
        self.is_late() || self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The error of a call that came to its deadline.
    pub(super) fn late(&self) -> Error {
        let found = format!("the call was not finished within its deadline of {} s", self.limit.as_secs());
        Error::Busy { found, retry_after: 1 }
    }
}

/// Stops the work of a call when it is dropped.
#[derive(Debug)]
pub(super) struct StopOnDrop(pub(super) Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}
