//! Where numbers live and operations run.
//!
//! This is the seam for other devices: above this crate, code calls [`ops`](crate::ops) on [`Tensor`](crate::Tensor)s and
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

impl Math {
    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// A device; cloning names the same one.
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

/// What is known of a card.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Its name in options, such as `cuda:0`.
    pub name: String,
    /// What its maker calls it.
    pub model: String,
    /// Its memory, in bytes.
    pub memory: usize,
    /// The part of it that is free, where the card can be used.
    pub free: Option<usize>,
    /// Its compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// The version of CUDA that the driver knows, such as 13.0.
    pub driver: String,
    /// Why it cannot be used.
    pub obstacle: Option<Error>,
}

impl Device {
    /// The device called `cpu`, `cuda`, `cuda:N`, or `auto`: the first card where one can be used, else the processor, which
    /// always computes in f32.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used.
    pub fn open(name: &str, math: Math) -> Result<Self> {
        Ok(Self::choose(name, math)?.0)
    }

    /// The same, and where `auto` took the processor, why.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used.
    pub fn choose(name: &str, math: Math) -> Result<(Self, Option<Error>)> {
        Self::check_name(name)?;
        let number = name.strip_prefix("cuda").map(|rest| rest.trim_start_matches(':').parse().unwrap_or(0));
        match (name, number) {
            (_, Some(ordinal)) => Ok((open_card(ordinal, math)?, None)),
            ("auto", _) => Ok(match open_card(0, math) {
                Ok(card) => (card, None),
                Err(why) => (Self::Cpu, Some(why)),
            }),
            _ => Ok((Self::Cpu, None)),
        }
    }

    /// Whether a device could be called so.
    ///
    /// # Errors
    /// If none could.
    pub fn check_name(name: &str) -> Result<()> {
        let number = name.strip_prefix("cuda:").map(str::parse::<usize>);
        if ["auto", "cpu", "cuda"].contains(&name) || matches!(number, Some(Ok(_))) {
            return Ok(());
        }
        Err(Error::Device {
            what: format!("{name:?} is no device, expected auto, cpu, cuda or cuda:N"),
            hint: "polyhead devices lists what there is",
        })
    }

    /// All cards of this machine, also those that cannot be used.
    ///
    /// # Errors
    /// If this program cannot use any: it was built without, or there is no driver.
    pub fn cards() -> Result<Vec<Card>> {
        #[cfg(not(feature = "cuda"))]
        return Err(built_without());
        #[cfg(feature = "cuda")]
        Ok(crate::cuda::cards()?.into_iter().map(card).collect())
    }

    /// How products are computed; the processor takes f32.
    pub fn math(&self) -> Math {
        match self {
            Self::Cpu => Math::F32,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.math(),
        }
    }

    /// What its maker calls it; nothing for the processor.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(&cuda.name),
        }
    }

    /// The most memory of a card that was in use at once, in bytes.
    pub fn peak_memory(&self) -> Option<usize> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(cuda.peak_memory()),
        }
    }

    /// Free and all memory of a card, in bytes.
    ///
    /// # Errors
    /// If the card does not answer.
    pub fn memory(&self) -> Result<Option<[usize; 2]>> {
        match self {
            Self::Cpu => Ok(None),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.memory().map(Some),
        }
    }

    /// Does `work`, launch by launch, and says for each family of kernels how many milliseconds it took; nothing for the
    /// processor.
    ///
    /// # Errors
    /// If something failed on the card.
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
    pub fn record<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Graph), E> {
        let nothing = |what: &str| Error::Device { what: what.into(), hint: "report this" };
        match self {
            Self::Cpu => {
                drop(work);
                Err(nothing("the processor records nothing").into())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let mut failed = None;
                let recorded = crate::cuda::Graph::record(cuda, || {
                    work().map_err(|error| {
                        failed = Some(error);
                        nothing("the work that was to be recorded failed")
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

    /// Does `work` while no other thread that takes turns has the device; at once on the processor.
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

    /// How many operations of a card were computed on the processor since it was opened.
    pub(crate) fn detours(&self) -> usize {
        match self {
            Self::Cpu => 0,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.detours(),
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

#[cfg(feature = "cuda")]
fn open_card(ordinal: usize, math: Math) -> Result<Device> {
    Ok(Device::Cuda(Cuda::open(ordinal, math)?))
}

#[cfg(not(feature = "cuda"))]
fn open_card(_: usize, _: Math) -> Result<Device> {
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
fn card(facts: crate::cuda::CardFacts) -> Card {
    let memory = Cuda::open(facts.ordinal, Math::F32).and_then(|cuda| cuda.memory());
    let (free, obstacle) = match memory {
        Ok([free, _]) => (Some(free), None),
        Err(error) => (None, Some(error)),
    };
    let crate::cuda::CardFacts { ordinal, name, memory, capability, driver, .. } = facts;
    Card { name: format!("cuda:{ordinal}"), model: name, memory, free, capability, driver, obstacle }
}
