//! Work that repeats on the same memory: a GPU runs it launch by launch the first time, records it as a CUDA graph the
//! second time and replays the graph from then on. The CPU runs it anew each time, and so does a GPU if a part of the
//! work has no kernel.
//!
//! Whatever changes between two runs must be in memory that was allocated before: [`Indices`](crate::Indices),
//! [`DeviceScalar`](crate::journal::DeviceScalar), [`StepKey`](crate::StepKey), parameters.
//!
//! ```
//! use polyhead_tensor::{Device, Error, Tensor, repeated::Repeated};
//! let (mut work, mut sum) = (Repeated::default(), 0.0);
//! for number in [1.0, 2.0] {
//!     work.run(&Device::Cpu, || Ok::<_, Error>(Tensor::scalar(number)), |found| sum += found.data()[0])?;
//! }
//! assert_eq!(sum, 3.0);
//! # Ok::<(), Error>(())
//! ```

use crate::Error;
use crate::device::{Device, Graph};

/// Repeated work and, once there is one, its CUDA graph.
#[derive(Debug, Default)]
pub enum Repeated<T> {
    /// Not run yet.
    #[default]
    New,
    /// Run once, so that kernels are loaded and algorithms of products chosen.
    Done,
    /// Run once, with a part that has no GPU kernel and fell back to the CPU: it is never recorded.
    Mixed,
    /// Recorded, with its result.
    Recorded(T, Graph),
}

impl<T> Repeated<T> {
    /// Runs the work, which must be the same every time, and passes its result to `then` before other work overwrites
    /// it.
    ///
    /// # Errors
    /// If the work or the GPU failed.
    pub fn run<E: From<Error>>(
        &mut self,
        device: &Device,
        work: impl FnOnce() -> Result<T, E>,
        then: impl FnOnce(&T),
    ) -> Result<(), E> {
        if device.is_cpu() {
            then(&work()?);
            return Ok(());
        }
        if matches!(self, Self::New | Self::Mixed) {
            let before = device.host_fallbacks();
            device.scratch(|| work().map(|found| then(&found)))?;
            *self = if device.host_fallbacks() == before { Self::Done } else { Self::Mixed };
            return Ok(device.check()?);
        }
        if matches!(self, Self::Done) {
            let (found, graph) = device.record(work)?;
            *self = Self::Recorded(found, graph);
        }
        if let Self::Recorded(found, graph) = self {
            graph.replay();
            then(found);
        }
        Ok(device.check()?)
    }
}
