//! Adam on a GPU: clipping, update and moving average of all parameters in two launches.
//!
//! The equations are those of [`Adam`], [`clip_global_norm`](super::clip_global_norm) and
//! [`moving_average`](super::moving_average). If the norm of the gradients is NaN or infinite, a step changes nothing.

use super::{Adam, AdamOptions};
use crate::parameters::Parameters;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Options of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuAdamOptions {
    /// Options of Adam; the learning rate is given with each step.
    pub adam: AdamOptions,
    /// Largest global norm: longer gradients are scaled down to it. Default: infinite, no clipping.
    pub max_norm: f32,
}

impl Default for GpuAdamOptions {
    fn default() -> Self {
        Self { adam: AdamOptions::default(), max_norm: f32::INFINITY }
    }
}

/// Adam and its state on a GPU.
#[derive(Debug)]
pub struct GpuAdam {
    #[cfg(feature = "cuda")]
    inner: crate::cuda::CudaAdam,
    /// Without CUDA there is no value of this type.
    #[cfg(not(feature = "cuda"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "cuda")]
impl GpuAdam {
    /// Creates the optimiser for parameters on a GPU, with a moving average that starts from `average` (in CPU memory).
    ///
    /// # Errors
    /// If the parameters are not on a GPU, or the GPU fails.
    pub fn new(
        parameters: &Parameters,
        options: GpuAdamOptions,
        average: Option<&Parameters>,
    ) -> Result<Self> {
        if parameters.device().is_cpu() {
            return Err(not_on_a_gpu());
        }
        let GpuAdamOptions { adam, max_norm } = options;
        Ok(Self { inner: crate::cuda::CudaAdam::new(parameters, adam, max_norm, average)? })
    }

    /// Sets the values that change with each step: its number, from 1, its learning rate, and the decay of the moving
    /// average.
    pub fn set(&self, step: u64, learning_rate: f32, decay: f32) {
        self.inner.set(step, learning_rate, decay);
    }

    /// Updates all parameters with the gradients of the last tape.
    pub fn step(&self) {
        self.inner.step();
    }

    /// Global norm of the gradients at the last step, before clipping.
    pub fn norm(&self) -> &Tensor {
        self.inner.norm()
    }

    /// Resumes from the moments of `from`.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn restore(&self, from: &Adam) -> Result<()> {
        self.inner.restore(&from.all_moments())
    }

    /// Copies its moments after `steps` steps to `to`.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn save(&self, steps: u64, to: &mut Adam) -> Result<()> {
        if steps > 0 {
            to.restore(steps, self.inner.moments()?);
        }
        Ok(())
    }

    /// Copies its moving average, if there is one, to `average`.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn save_average(&self, average: &mut Parameters) -> Result<()> {
        for (id, value) in self.inner.average()?.into_iter().flatten() {
            average.set(id, value);
        }
        Ok(())
    }
}

#[cfg(not(feature = "cuda"))]
#[allow(clippy::missing_errors_doc, missing_docs, reason = "never called: no value of the type exists")]
impl GpuAdam {
    pub fn new(_: &Parameters, _: GpuAdamOptions, _: Option<&Parameters>) -> Result<Self> {
        Err(not_on_a_gpu())
    }

    pub fn set(&self, _: u64, _: f32, _: f32) {
        match self.never {}
    }

    pub fn step(&self) {
        match self.never {}
    }

    pub fn norm(&self) -> &Tensor {
        match self.never {}
    }

    pub fn restore(&self, _: &Adam) -> Result<()> {
        match self.never {}
    }

    pub fn save(&self, _: u64, _: &mut Adam) -> Result<()> {
        match self.never {}
    }

    pub fn save_average(&self, _: &mut Parameters) -> Result<()> {
        match self.never {}
    }
}

fn not_on_a_gpu() -> Error {
    Error::Device {
        what: "the parameters are in CPU memory, expected them on a GPU".into(),
        hint: "report this",
    }
}
