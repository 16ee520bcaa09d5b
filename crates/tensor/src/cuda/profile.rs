//! Time of a step by kernel family: events around every launch.
//!
//! Only single launches can be timed; a replayed graph is one launch. The gaps are the difference between the whole
//! time of a step and the sum of its parts: negative if a branch runs beside the main stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::device::Cuda;
use super::kernel::{Launch, args};
use crate::Result;

/// Family of kernels under which the time of a launch is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelFamily {
    /// Matrix products.
    Gemm,
    /// Attention, without its projections.
    Attention,
    /// Norms with their residuals.
    Norm,
    /// Softmax and loss.
    Loss,
    /// Clipping and the update of parameters.
    Optimizer,
    /// Embedding look-ups.
    Embedding,
    /// Everything else: dropout, activations, sums of gradients.
    Elementwise,
}

impl KernelFamily {
    /// All families.
    pub const ALL: [Self; 7] = [
        Self::Gemm,
        Self::Attention,
        Self::Norm,
        Self::Loss,
        Self::Optimizer,
        Self::Embedding,
        Self::Elementwise,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Attention => "attention",
            Self::Norm => "norm",
            Self::Loss => "loss",
            Self::Optimizer => "optimizer",
            Self::Embedding => "embedding",
            Self::Elementwise => "elementwise",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Profile {
    on: AtomicBool,
    launches: Mutex<Vec<Timed>>,
}

#[derive(Debug)]
struct Timed {
    family: KernelFamily,
    begin: sys::CUevent,
    end: sys::CUevent,
}

impl Cuda {
    /// Runs `work` with events before and after it, if profiling is on.
    pub(super) fn timed(&self, family: KernelFamily, work: impl FnOnce()) {
        if !self.profile.on.load(Ordering::Relaxed) {
            return work();
        }
        let event = || {
            let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
            // SAFETY: the event was just created, and the stream lives as long as the device.
            let recorded =
                made.and_then(|event| unsafe { result::event::record(event, self.stream()).map(|()| event) });
            self.note_result(recorded, "measuring time")
        };
        let begin = event();
        work();
        if let (Some(begin), Some(end)) = (begin, event()) {
            let mut launches = self.profile.launches.lock().unwrap_or_else(PoisonError::into_inner);
            launches.push(Timed { family, begin, end });
        }
    }

    /// Blocks the GPU while the first launches are queued, so that it is never idle between two events.
    fn hold_queue(&self) {
        let launch = Launch {
            file: "arrays",
            name: "wait",
            grid: [1, 1, 1],
            block: 1,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        self.launch(launch, args![100_000_000_u64]);
    }

    /// Runs `work` and returns the milliseconds that the launches of each family took.
    ///
    /// # Errors
    /// If something failed on the GPU.
    pub fn profile(&self, work: impl FnOnce()) -> Result<Vec<(KernelFamily, f64)>> {
        self.synchronize()?;
        self.hold_queue();
        self.profile.on.store(true, Ordering::Relaxed);
        work();
        self.profile.on.store(false, Ordering::Relaxed);
        self.synchronize()?;
        let timed =
            std::mem::take(&mut *self.profile.launches.lock().unwrap_or_else(PoisonError::into_inner));
        let mut sums = KernelFamily::ALL.map(|family| (family, 0.0));
        for Timed { family, begin, end } in timed {
            // SAFETY: both events have been recorded and waited for, and have no other owner.
            let time = unsafe {
                let time = result::event::elapsed(begin, end);
                let _ = result::event::destroy(begin).and(result::event::destroy(end));
                time
            };
            let (_, sum) =
                sums.iter_mut().find(|(known, ..)| *known == family).expect("all families are in the list");
            *sum += f64::from(self.note_result(time, "measuring time").unwrap_or(0.0));
        }
        self.check()?;
        Ok(sums.to_vec())
    }
}
