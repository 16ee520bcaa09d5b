//! Devices: where values live and operations run.
//!
//! The boundary between devices: above this crate, code calls [`ops`](crate::ops) on [`Tensor`](crate::Tensor)s and
//! never sees a buffer, a kernel or a thread. A tensor knows its device, and an operation runs where its inputs are.
//!
//! ```
//! use polyhead_tensor::{Device, Math};
//! assert_eq!(Device::open("cpu", Math::F32)?.name(), "cpu");
//! # Ok::<(), polyhead_tensor::Error>(())
//! ```

mod policy;

pub use policy::Policy;

#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
use crate::ops::attention::AttentionKernels;
use crate::{Dtype, Error, Result};

/// Compute dtype of matrix products on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Math {
    /// f32 throughout.
    F32,
    /// f32 values; products read TF32, which has 10 fraction bits.
    Tf32,
    /// bf16 activations, f32 parameters and f32 sums; the fastest.
    #[default]
    Bf16,
}

impl Math {
    /// The dtype of that name.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Tf32 => Dtype::Tf32,
            Self::Bf16 => Dtype::Bf16,
        }
    }

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        self.dtype().name()
    }
}

/// A device; clones share it.
#[derive(Debug, Clone, Default)]
pub enum Device {
    /// The CPU, with all threads of the current pool.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(Arc<Cuda>),
}

/// A recorded CUDA graph: work of a GPU that is replayed as a whole.
#[derive(Debug)]
pub struct Graph {
    #[cfg(feature = "cuda")]
    graph: crate::cuda::CudaGraph,
}

impl Graph {
    /// Queues the recorded work again.
    pub fn replay(&self) {
        #[cfg(feature = "cuda")]
        self.graph.replay();
    }
}

/// Properties of a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuInfo {
    /// Name in options, such as `cuda:0`.
    pub name: String,
    /// Product name, such as `NVIDIA H100`.
    pub model: String,
    /// Total memory in bytes.
    pub memory: usize,
    /// Free memory in bytes, if the GPU can be used.
    pub free: Option<usize>,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// Newest CUDA version that the driver supports, such as 13.0.
    pub driver: String,
    /// Why the GPU cannot be used, if it cannot.
    pub obstacle: Option<Error>,
}

impl Device {
    /// Opens the device called `cpu`, `cuda`, `cuda:N`, or `auto`: the first GPU if it can be used, otherwise the CPU,
    /// which always computes in f32.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used.
    pub fn open(name: &str, math: Math) -> Result<Self> {
        Ok(Self::choose(name, math)?.0)
    }

    /// As [`Device::open`]; also returns why `auto` fell back to the CPU.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used.
    pub fn choose(name: &str, math: Math) -> Result<(Self, Option<Error>)> {
        Self::check_name(name)?;
        let number = name.strip_prefix("cuda").map(|rest| rest.trim_start_matches(':').parse().unwrap_or(0));
        match (name, number) {
            (_, Some(ordinal)) => Ok((open_gpu(ordinal, math)?, None)),
            ("auto", _) => Ok(match open_gpu(0, math) {
                Ok(gpu) => (gpu, None),
                Err(why) => (Self::Cpu, Some(why)),
            }),
            _ => Ok((Self::Cpu, None)),
        }
    }

    /// Checks that `name` has the form of a device name.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_name(name: &str) -> Result<()> {
        let number = name.strip_prefix("cuda:").map(str::parse::<usize>);
        if ["auto", "cpu", "cuda"].contains(&name) || matches!(number, Some(Ok(_))) {
            return Ok(());
        }
        Err(Error::Device {
            what: format!("unknown device {name:?}, expected auto, cpu, cuda or cuda:N"),
            hint: "polyhead devices lists the devices of this machine",
        })
    }

    /// Lists all GPUs of this machine, including those that cannot be used.
    ///
    /// # Errors
    /// If this program cannot use any: it was built without CUDA, or there is no driver.
    pub fn gpus() -> Result<Vec<GpuInfo>> {
        #[cfg(not(feature = "cuda"))]
        return Err(built_without());
        #[cfg(feature = "cuda")]
        Ok(crate::cuda::gpus()?.into_iter().map(gpu_info).collect())
    }

    /// Compute dtype of products; always f32 on the CPU.
    pub fn math(&self) -> Math {
        match self {
            Self::Cpu => Math::F32,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.math(),
        }
    }

    /// Product name of the GPU; `None` for the CPU.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(&cuda.name),
        }
    }

    /// Peak memory in use on the GPU, in bytes; `None` for the CPU.
    pub fn peak_memory(&self) -> Option<usize> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(cuda.peak_memory()),
        }
    }

    /// Free and total memory of the GPU in bytes; `None` for the CPU.
    ///
    /// # Errors
    /// If the GPU does not answer.
    pub fn memory(&self) -> Result<Option<[usize; 2]>> {
        match self {
            Self::Cpu => Ok(None),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.memory().map(Some),
        }
    }

    /// Runs `work` launch by launch and returns the milliseconds spent in each family of kernels; empty for the CPU.
    ///
    /// # Errors
    /// If something failed on the GPU.
    pub fn profile(&self, work: impl FnOnce()) -> Result<Vec<(&'static str, f64)>> {
        match self {
            Self::Cpu => {
                work();
                Ok(Vec::new())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let families = cuda.profile(work)?;
                Ok(families.into_iter().map(|(family, time)| (family.name(), time)).collect())
            }
        }
    }

    /// Name in options and reports.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => format!("cuda:{}", cuda.ordinal),
        }
    }

    /// True for the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Runs `work`, a step whose memory the next step reuses: nothing allocated inside may outlive it.
    pub fn scratch<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Cpu => work(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.scratch(work),
        }
    }

    /// Records what `work` queues, without running it. Its results are overwritten when other work runs.
    ///
    /// # Errors
    /// If `work` failed or did something that cannot be recorded; always on the CPU.
    pub fn record<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Graph), E> {
        let failure = |what: &str| Error::Device { what: what.into(), hint: "report this" };
        match self {
            Self::Cpu => {
                drop(work);
                Err(failure("the CPU cannot record a CUDA graph").into())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let mut failed = None;
                let recorded = crate::cuda::CudaGraph::record(cuda, || {
                    work().map_err(|error| {
                        failed = Some(error);
                        failure("the work to record failed")
                    })
                });
                match (recorded, failed) {
                    (Ok((result, graph)), _) => Ok((result, Graph { graph })),
                    (Err(_), Some(error)) => Err(error),
                    (Err(error), None) => Err(error.into()),
                }
            }
        }
    }

    /// Runs `work` while no other thread that takes turns holds the device; at once on the CPU.
    pub fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Cpu => work(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let _turn = cuda.turn();
                work()
            }
        }
    }

    /// Restricts the kernels of attention on a GPU from here on, for comparisons; does nothing on the CPU. Default: the
    /// fastest.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub fn set_attention_kernels(&self, kernels: AttentionKernels) {
        match self {
            Self::Cpu => {}
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.set_attention_kernels(kernels),
        }
    }

    /// Number of GPU operations that fell back to the CPU since the device was opened.
    pub(crate) fn host_fallbacks(&self) -> usize {
        match self {
            Self::Cpu => 0,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.host_fallbacks(),
        }
    }

    /// Returns the first error of the GPU, without waiting for queued work.
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

    /// Waits until all queued work is done.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.synchronize(),
        }
    }
}

#[cfg(feature = "cuda")]
fn open_gpu(ordinal: usize, math: Math) -> Result<Device> {
    Ok(Device::Cuda(Cuda::open(ordinal, math)?))
}

#[cfg(not(feature = "cuda"))]
fn open_gpu(_: usize, _: Math) -> Result<Device> {
    Err(built_without())
}

#[cfg(not(feature = "cuda"))]
fn built_without() -> Error {
    Error::Device {
        what: "this program was built without CUDA".into(),
        hint: "build it with: cargo build --release --features cuda",
    }
}

#[cfg(feature = "cuda")]
fn gpu_info(facts: crate::cuda::CudaDeviceInfo) -> GpuInfo {
    let memory = Cuda::open(facts.ordinal, Math::F32).and_then(|cuda| cuda.memory());
    let (free, obstacle) = match memory {
        Ok([free, _]) => (Some(free), None),
        Err(error) => (None, Some(error)),
    };
    let crate::cuda::CudaDeviceInfo { ordinal, name, memory, capability, driver, .. } = facts;
    GpuInfo { name: format!("cuda:{ordinal}"), model: name, memory, free, capability, driver, obstacle }
}
