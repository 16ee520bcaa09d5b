//! An opened card: its context, its streams, its memory, and the first error that happened on it.
//!
//! Work is queued and runs later, so most errors show up at a call that did not cause them. Therefore launching never
//! fails: the first error is kept, everything after it does nothing, and [`Cuda::check`] tells it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result, sys};

use super::array::Array;
use super::branch::Branch;
use super::cards::{CardFacts, cards};
use super::kernel::Kernels;
use super::library::{self, obstacle};
use super::matmul::Products;
use super::memory::{Home, Staging, Store};
use super::profile::Profile;
use crate::device::Math;
use crate::{Error, Result};

/// A card in use.
pub struct Cuda {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    math: Math,
    multiprocessors: u32,
    shared_limit: usize,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// For copies that must not become part of a graph.
    side: sys::CUstream,
    pub(super) branch: Branch,
    store: Mutex<Store>,
    staging: Mutex<Staging>,
    error: Mutex<Option<Error>>,
    failed: AtomicBool,
    turn: Mutex<()>,
    scratch_depth: AtomicUsize,
    /// Operations that were computed on the processor.
    detours: AtomicUsize,
    pub(super) recording: AtomicBool,
    /// Numbers that the present recording reads and nobody else keeps.
    recorded: Mutex<Vec<Array>>,
    pub(super) kernels: Kernels,
    pub(super) products: Products,
    pub(super) profile: Profile,
}

// SAFETY: handles of the driver may be used from any thread that has bound the context; what changes is atomic or behind
// locks. Work of two threads would still mix in one stream: whoever may meet others takes turns.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cuda({}, {}, {:?})", self.ordinal, self.name, self.math)
    }
}

thread_local! {
    /// The context that this thread has bound.
    static BOUND: Cell<usize> = const { Cell::new(0) };
}

/// What the driver says about an error.
pub(super) fn describe(error: result::DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", error.0),
    }
}

impl Cuda {
    /// Opens card number `ordinal`.
    ///
    /// # Errors
    /// If there is no such card, or something that it needs is missing.
    pub fn open(ordinal: usize, math: Math) -> Result<Arc<Self>> {
        let cards = cards()?;
        let Some(facts) = cards.get(ordinal) else {
            return match cards.len() {
                0 => obstacle(
                    "the driver finds no card",
                    "is it visible to this system? nvidia-smi lists cards",
                ),
                count => obstacle(
                    format!("there is no card {ordinal}, expected 0 to {}", count - 1),
                    "polyhead devices lists what there is",
                ),
            };
        };
        facts.check()?;
        library::check_libraries()?;
        Self::start(facts, math).map_err(|error| Error::Device {
            what: format!("{} does not start: {}", facts.name, describe(error)),
            hint: "is it in use by somebody who wants it alone?",
        })
    }

    fn start(facts: &CardFacts, math: Math) -> std::result::Result<Arc<Self>, result::DriverError> {
        let device = result::device::get(i32::try_from(facts.ordinal).unwrap_or(i32::MAX))?;
        let limit = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        // SAFETY: the card exists; its context is kept until the program ends.
        let (context, shared_limit) =
            unsafe { (result::primary_ctx::retain(device)?, result::device::get_attribute(device, limit)?) };
        // SAFETY: just retained.
        unsafe { result::ctx::set_current(context)? };
        BOUND.set(context as usize);
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        let side = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        Ok(Arc::new(Self {
            ordinal: facts.ordinal,
            name: facts.name.clone(),
            math,
            multiprocessors: facts.multiprocessors,
            shared_limit: shared_limit as usize,
            context,
            stream,
            side,
            branch: Branch::new()?,
            store: Mutex::default(),
            staging: Mutex::new(Staging::new()),
            error: Mutex::new(None),
            failed: AtomicBool::new(false),
            turn: Mutex::default(),
            scratch_depth: AtomicUsize::new(0),
            detours: AtomicUsize::new(0),
            recording: AtomicBool::new(false),
            recorded: Mutex::default(),
            kernels: Kernels::new(facts.capability),
            products: Products::default(),
            profile: Profile::default(),
        }))
    }

    /// How products are computed.
    pub fn math(&self) -> Math {
        self.math
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of shared memory that a block can have at most.
    pub(crate) fn shared_limit(&self) -> usize {
        self.shared_limit
    }

    /// Where work is queued now: the main stream, or the branch of a recording.
    pub(super) fn stream(&self) -> sys::CUstream {
        if self.branch.is_taken() { self.branch.stream } else { self.stream }
    }

    pub(super) fn main_stream(&self) -> sys::CUstream {
        self.stream
    }

    pub(super) fn side_stream(&self) -> sys::CUstream {
        self.side
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the card the one that this thread talks to.
    pub(super) fn bind(&self) {
        if BOUND.get() != self.context as usize {
            // SAFETY: the context lives as long as the program.
            let bound = unsafe { result::ctx::set_current(self.context) };
            if self.keep(bound, "binding the card").is_some() {
                BOUND.set(self.context as usize);
            }
        }
    }

    /// Lets one thread after the other have the card: what several queue at once would mix, in recordings too.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most memory that was in use at once, in bytes.
    pub fn peak_memory(&self) -> usize {
        self.store().peak
    }

    /// Free and all memory of the card, in bytes.
    ///
    /// # Errors
    /// If the card does not answer.
    pub fn memory(&self) -> Result<[usize; 2]> {
        self.bind();
        let (free, all) = result::mem_get_info().map_err(|error| card_error("asking for memory", error))?;
        Ok([free, all])
    }

    /// Does `work`, whose memory is free for others after it: nothing made inside may be kept.
    pub fn scratch<T>(&self, work: impl FnOnce() -> T) -> T {
        self.scratch_depth.fetch_add(1, Ordering::Relaxed);
        let _after = Afterwards(|| {
            self.scratch_depth.fetch_sub(1, Ordering::Relaxed);
        });
        work()
    }

    /// The opposite inside of [`Cuda::scratch`]: what `work` makes may be kept.
    pub(crate) fn lasting<T>(&self, work: impl FnOnce() -> T) -> T {
        let depth = self.scratch_depth.swap(0, Ordering::Relaxed);
        let _after = Afterwards(|| self.scratch_depth.store(depth, Ordering::Relaxed));
        work()
    }

    /// Counts an operation that is computed on the processor.
    pub(super) fn count_detour(&self) {
        self.detours.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn detours(&self) -> usize {
        self.detours.load(Ordering::Relaxed)
    }

    /// Keeps numbers as long as the graph that is being recorded.
    pub(super) fn keep_while_recorded(&self, array: &Array) {
        if self.recording.load(Ordering::Relaxed) {
            self.recorded.lock().unwrap_or_else(PoisonError::into_inner).push(array.clone());
        }
    }

    /// What the recording that has just ended reads.
    pub(super) fn take_recorded(&self) -> Vec<Array> {
        std::mem::take(&mut *self.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn home(&self) -> Home {
        if self.scratch_depth.load(Ordering::Relaxed) > 0 { Home::Scratch } else { Home::General }
    }

    /// True after an error: nothing is done any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Keeps an error if it is the first.
    pub(crate) fn keep_error(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// The same for an answer of the driver; tells what was being done.
    pub(super) fn keep<T>(
        &self,
        answer: std::result::Result<T, result::DriverError>,
        what: &str,
    ) -> Option<T> {
        answer.map_err(|error| self.keep_error(card_error(what, error))).ok()
    }

    pub(super) fn keep_allocation_error(&self, size: usize, is_full: bool, error: result::DriverError) {
        if !is_full {
            return self.keep_error(card_error("asking for memory", error));
        }
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let held = self.store().held;
        let all = result::mem_get_info().map_or(0, |(_, all)| all);
        self.keep_error(Error::Device {
            what: format!(
                "out of memory on {}: {} MiB asked for, {} MiB held of {} MiB",
                self.name,
                mib(size),
                mib(held),
                mib(all)
            ),
            hint: "take smaller batches (train.max_tokens, --batch-tokens), or a card that nobody else uses",
        });
    }

    /// The first error, if there was one; waits for nothing.
    ///
    /// # Errors
    /// If something failed on the card.
    pub fn check(&self) -> Result<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        error.map_or(Ok(()), Err)
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// If something failed on the card.
    pub fn synchronize(&self) -> Result<()> {
        self.check()?;
        self.bind();
        // SAFETY: the stream lives as long as the card.
        let answer = unsafe { result::stream::synchronize(self.stream) };
        self.keep(answer, "waiting for the card");
        self.check()
    }
}

/// Does something when it goes out of scope, also after a panic.
pub(super) struct Afterwards<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for Afterwards<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// An error of the driver while something was being done.
pub(super) fn card_error(what: &str, error: result::DriverError) -> Error {
    use sys::CUresult as E;
    let gone = [E::CUDA_ERROR_DEVICE_UNAVAILABLE, E::CUDA_ERROR_ECC_UNCORRECTABLE, E::CUDA_ERROR_NO_DEVICE]
        .contains(&error.0);
    let hint = if gone {
        "the card is gone: look at nvidia-smi and the system's log; a run goes on from its last checkpoint with --resume"
    } else {
        "a run goes on from its last checkpoint with --resume; if it happens again, report it with the command"
    };
    Error::Device { what: format!("the card failed while {what}: {}", describe(error)), hint }
}
