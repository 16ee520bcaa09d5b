//! Where numbers live and operations run.
//!
//! This is the seam for other devices: above this crate, code calls [`ops`](crate::ops) on [`Tensor`](crate::Tensor)s and
//! never sees a buffer, a kernel or a thread. A tensor knows its device, and an operation runs where its inputs are.

#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
use crate::{Error, Result};

/// How products are computed on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Math {
    /// f32 throughout.
    F32,
    /// f32 numbers, of which products read eleven bits of each factor's fraction.
    Tf32,
    /// bf16 activations, f32 parameters, f32 sums; the fastest.
    #[default]
    Bf16,
}

/// A device.
#[derive(Debug, Clone, Default)]
pub enum Device {
    /// The processor, all threads of the current pool.
    #[default]
    Cpu,
    /// A card.
    #[cfg(feature = "cuda")]
    Cuda(Arc<Cuda>),
}

/// Work of a card, recorded to be replayed as a whole.
#[derive(Debug)]
pub struct Graph {
    #[cfg(feature = "cuda")]
    graph: crate::cuda::Graph,
}

impl Graph {
    /// Queues the whole work again.
    pub fn replay(&self) {
        #[cfg(feature = "cuda")]
        self.graph.replay();
    }
}

impl Device {
    /// Its name in options and reports.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => format!("cuda:{}", cuda.ordinal),
        }
    }

    /// Whether it is the processor.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Does `work`, a step whose memory the next one uses again: nothing made inside may be kept.
    pub fn scratch<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Cpu => work(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.scratch(work),
        }
    }

    /// Records what `work` queues, without running it. What it makes is gone when something else runs.
    ///
    /// # Errors
    /// If `work` failed or did what cannot be recorded; the processor records nothing.
    pub fn record<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Graph)> {
        match self {
            Self::Cpu => {
                drop(work);
                Err(Error::Device { what: "the processor records nothing".into(), hint: "report this" })
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let (result, graph) = crate::cuda::Graph::record(cuda, work)?;
                Ok((result, Graph { graph }))
            }
        }
    }

    /// Tells the first error of the card, without waiting for work that is under way.
    ///
    /// # Errors
    /// If there was one.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.check(),
        }
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// If the card failed.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.synchronize(),
        }
    }
}
