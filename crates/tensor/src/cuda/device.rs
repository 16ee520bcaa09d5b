//! An opened GPU: its context, streams, memory, and first error.
//!
//! Work is queued and runs later, so most errors show up at a call that did not cause them. Therefore launching never
//! fails: the first error is recorded, later calls do nothing, and [`Cuda::check`] returns the error.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result, sys};

use super::array::Array;
use super::branch::Branch;
use super::gpus::{CudaDeviceInfo, gpus};
use super::kernel::Kernels;
use super::library::{self, device_error};
use super::matmul::CublasProducts;
use super::memory::{MemoryPool, Staging, Store};
use super::profile::Profile;
use crate::device::Math;
use crate::ops::attention::AttentionKernels;
use crate::{Error, Result};

/// An opened GPU.
pub struct Cuda {
    /// Its index.
    pub ordinal: usize,
    /// Product name.
    pub name: String,
    math: Math,
    multiprocessors: u32,
    shared_limit: usize,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Stream for copies that must not become part of a graph.
    side: sys::CUstream,
    pub(super) branch: Branch,
    store: Mutex<Store>,
    staging: Mutex<Staging>,
    error: Mutex<Option<Error>>,
    failed: AtomicBool,
    turn: Mutex<()>,
    scratch_depth: AtomicUsize,
    /// Number of operations that fell back to the CPU.
    host_fallbacks: AtomicUsize,
    pub(super) recording: AtomicBool,
    /// Arrays that the current recording reads and nobody else retains.
    recorded: Mutex<Vec<Array>>,
    pub(super) kernels: Kernels,
    pub(super) products: CublasProducts,
    pub(super) profile: Profile,
    attention_kernels: Mutex<AttentionKernels>,
}

// SAFETY: driver handles may be used from any thread that has bound the context; mutable state is atomic or behind
// locks. Work of two threads would still interleave in one stream: threads that may compete take turns.
unsafe impl Send for Cuda {}
// SAFETY: as for Send.
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

/// The driver's description of an error.
pub(super) fn describe(error: result::DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", error.0),
    }
}

impl Cuda {
    /// Opens GPU number `ordinal`.
    ///
    /// # Errors
    /// If there is no such GPU, or a required library is missing.
    pub fn open(ordinal: usize, math: Math) -> Result<Arc<Self>> {
        let gpus = gpus()?;
        let Some(facts) = gpus.get(ordinal) else {
            return match gpus.len() {
                0 => device_error("the NVIDIA driver finds no GPU", "check that nvidia-smi lists it"),
                count => device_error(
                    format!("there is no GPU {ordinal}, expected 0 to {}", count - 1),
                    "polyhead devices lists the devices of this machine",
                ),
            };
        };
        facts.check()?;
        library::check_libraries()?;
        Self::start(facts, math).map_err(|error| Error::Device {
            what: format!("{} does not start: {}", facts.name, describe(error)),
            hint: "check that no other process holds it in exclusive mode",
        })
    }

    fn start(facts: &CudaDeviceInfo, math: Math) -> std::result::Result<Arc<Self>, result::DriverError> {
        let device = result::device::get(i32::try_from(facts.ordinal).unwrap_or(i32::MAX))?;
        let limit = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        // SAFETY: the device exists; its context is retained until the program ends.
        let (context, shared_limit) =
            unsafe { (result::primary_ctx::retain(device)?, result::device::get_attribute(device, limit)?) };
        // SAFETY: the context was just retained.
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
            host_fallbacks: AtomicUsize::new(0),
            recording: AtomicBool::new(false),
            recorded: Mutex::default(),
            kernels: Kernels::new(facts.capability),
            products: CublasProducts::default(),
            profile: Profile::default(),
            attention_kernels: Mutex::default(),
        }))
    }

    /// Compute dtype of products.
    pub fn math(&self) -> Math {
        self.math
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Compute capability, such as (9, 0).
    pub(crate) fn capability(&self) -> (i32, i32) {
        self.kernels.capability()
    }

    /// Restricts the kernels of attention, for comparisons.
    pub(crate) fn set_attention_kernels(&self, kernels: AttentionKernels) {
        *self.attention_kernels.lock().unwrap_or_else(PoisonError::into_inner) = kernels;
    }

    pub(crate) fn attention_kernels(&self) -> AttentionKernels {
        *self.attention_kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum bytes of shared memory per block.
    pub(crate) fn shared_limit(&self) -> usize {
        self.shared_limit
    }

    /// Stream that work is queued on: the main stream, or the branch of a recording.
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

    /// Binds the context to this thread.
    pub(super) fn bind(&self) {
        if BOUND.get() != self.context as usize {
            // SAFETY: the context lives as long as the program.
            let bound = unsafe { result::ctx::set_current(self.context) };
            if self.note_result(bound, "binding the context").is_some() {
                BOUND.set(self.context as usize);
            }
        }
    }

    /// Locks the GPU for one thread at a time: work queued by several would interleave, also in recordings.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Peak memory in use, in bytes.
    pub fn peak_memory(&self) -> usize {
        self.store().peak
    }

    /// Free and total memory of the GPU, in bytes.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<[usize; 2]> {
        self.bind();
        let (free, all) = result::mem_get_info().map_err(|error| gpu_error("querying memory", error))?;
        Ok([free, all])
    }

    /// Runs `work` with memory from the scratch pool, which is reused afterwards: nothing allocated inside may outlive
    /// it.
    pub fn scratch<T>(&self, work: impl FnOnce() -> T) -> T {
        self.scratch_depth.fetch_add(1, Ordering::Relaxed);
        let _after = OnDrop(|| {
            self.scratch_depth.fetch_sub(1, Ordering::Relaxed);
        });
        work()
    }

    /// Inside of [`Cuda::scratch`]: runs `work` with memory from the general pool, so that its results may outlive the
    /// step.
    pub(crate) fn persistent<T>(&self, work: impl FnOnce() -> T) -> T {
        let depth = self.scratch_depth.swap(0, Ordering::Relaxed);
        let _after = OnDrop(|| self.scratch_depth.store(depth, Ordering::Relaxed));
        work()
    }

    /// Counts an operation that falls back to the CPU.
    pub(super) fn count_host_fallback(&self) {
        self.host_fallbacks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn host_fallbacks(&self) -> usize {
        self.host_fallbacks.load(Ordering::Relaxed)
    }

    /// Retains an array as long as the graph that is being recorded.
    pub(super) fn retain_while_recorded(&self, array: &Array) {
        if self.recording.load(Ordering::Relaxed) {
            self.recorded.lock().unwrap_or_else(PoisonError::into_inner).push(array.clone());
        }
    }

    /// Arrays that the recording that has just ended reads.
    pub(super) fn take_recorded(&self) -> Vec<Array> {
        std::mem::take(&mut *self.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn memory_pool(&self) -> MemoryPool {
        if self.scratch_depth.load(Ordering::Relaxed) > 0 { MemoryPool::Scratch } else { MemoryPool::General }
    }

    /// True after an error: further work does nothing.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Records an error if it is the first.
    pub(crate) fn note_error(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Records the error of a driver call, if any; `what` names the activity.
    pub(super) fn note_result<T>(
        &self,
        answer: std::result::Result<T, result::DriverError>,
        what: &str,
    ) -> Option<T> {
        answer.map_err(|error| self.note_error(gpu_error(what, error))).ok()
    }

    pub(super) fn note_allocation_error(&self, size: usize, is_full: bool, error: result::DriverError) {
        if !is_full {
            return self.note_error(gpu_error("allocating memory", error));
        }
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let held = self.store().held;
        let all = result::mem_get_info().map_or(0, |(_, all)| all);
        self.note_error(Error::Device {
            what: format!(
                "out of memory on {}: {} MiB requested, {} MiB held, {} MiB in total",
                self.name,
                mib(size),
                mib(held),
                mib(all)
            ),
            hint: "use smaller batches (train.max_tokens, --batch-tokens), or a GPU that no other process uses",
        });
    }

    /// Returns the first error, if there was one; does not wait.
    ///
    /// # Errors
    /// If something failed on the GPU.
    pub fn check(&self) -> Result<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        error.map_or(Ok(()), Err)
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// If something failed on the GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.check()?;
        self.bind();
        // SAFETY: the stream lives as long as the device.
        let answer = unsafe { result::stream::synchronize(self.stream) };
        self.note_result(answer, "waiting for the GPU");
        self.check()
    }
}

/// Calls its function when it is dropped, also after a panic.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The error of a driver call during the activity `what`.
pub(super) fn gpu_error(what: &str, error: result::DriverError) -> Error {
    use sys::CUresult as E;
    let gone = [E::CUDA_ERROR_DEVICE_UNAVAILABLE, E::CUDA_ERROR_ECC_UNCORRECTABLE, E::CUDA_ERROR_NO_DEVICE]
        .contains(&error.0);
    let hint = if gone {
        "the GPU is gone: check nvidia-smi and the system log; --resume continues a run from its last checkpoint"
    } else {
        "--resume continues a run from its last checkpoint; if it happens again, report it with the command"
    };
    Error::Device { what: format!("the GPU failed while {what}: {}", describe(error)), hint }
}
