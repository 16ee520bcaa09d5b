//! Work that is done again and again on the same memory: a card does it once launch by launch, records it the second time
//! and replays the recording from then on. The processor does it anew each time, and so does a card where a part of the
//! work has no kernel.
//!
//! What changes between two times must stand in memory that was made before: [`Indices`](crate::Indices),
//! [`Number`](crate::journal::Number), [`StepKey`](crate::StepKey), parameters.
//!
//! ```
//! use polyhead_tensor::{Device, Error, Tensor, repeated::Repeated};
//! let (mut work, mut sum) = (Repeated::default(), 0.0);
//! for number in [1.0, 2.0] {
//!     work.go(&Device::Cpu, || Ok::<_, Error>(Tensor::scalar(number)), |found| sum += found.data()[0])?;
//! }
//! assert_eq!(sum, 3.0);
//! # Ok::<(), Error>(())
//! ```

use crate::Error;
use crate::device::{Device, Graph};

/// Work and, once there is one, its recording.
#[derive(Debug, Default)]
pub enum Repeated<T> {
    /// Never done yet.
    #[default]
    New,
    /// Done once, so that kernels are loaded and products chosen.
    Done,
    /// Done once, with a part that has no kernel and was computed on the processor: it is never recorded.
    Mixed,
    /// Recorded, with what it leaves behind.
    Recorded(T, Graph),
}

impl<T> Repeated<T> {
    /// Does the work, which is the same every time, and lets `then` see what came of it before other work overwrites it.
    ///
    /// # Errors
    /// If the work or the card failed.
    pub fn go<E: From<Error>>(
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
            let before = device.detours();
            device.scratch(|| work().map(|found| then(&found)))?;
            *self = if device.detours() == before { Self::Done } else { Self::Mixed };
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
