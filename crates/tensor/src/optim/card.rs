//! Adam on a card: clipping, update and moving average of all parameters in two launches.
//!
//! The equations are those of [`Adam`], [`clip_global_norm`](super::clip_global_norm) and
//! [`moving_average`](super::moving_average). Where the norm of the gradients is no number, a step changes nothing.

use super::{Adam, AdamOptions};
use crate::parameters::Parameters;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Settings of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardAdamOptions {
    /// Settings of Adam; the learning rate is given with each step.
    pub adam: AdamOptions,
    /// Gradients longer than this are scaled down to it; infinite for no limit.
    pub max_norm: f32,
}

impl Default for CardAdamOptions {
    fn default() -> Self {
        Self { adam: AdamOptions::default(), max_norm: f32::INFINITY }
    }
}

/// Adam and its memory on a card.
#[derive(Debug)]
pub struct CardAdam {
    #[cfg(feature = "cuda")]
    inner: crate::cuda::CardAdam,
    /// No card, no value.
    #[cfg(not(feature = "cuda"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "cuda")]
impl CardAdam {
    /// For parameters that are on a card, and a moving average that starts from `average`, in the processor's memory.
    ///
    /// # Errors
    /// If the parameters are not on a card, or the card fails.
    pub fn new(
        parameters: &Parameters,
        options: CardAdamOptions,
        average: Option<&Parameters>,
    ) -> Result<Self> {
        if parameters.device().is_cpu() {
            return Err(not_on_a_card());
        }
        let CardAdamOptions { adam, max_norm } = options;
        Ok(Self { inner: crate::cuda::CardAdam::new(parameters, adam, max_norm, average)? })
    }

    /// What changes with each step: its number, from 1 on, its learning rate, and the share of the average that stays.
    pub fn set(&self, step: u64, rate: f32, stays: f32) {
        self.inner.set(step, rate, stays);
    }

    /// Changes all parameters by the gradients that the last tape left.
    pub fn step(&self) {
        self.inner.step();
    }

    /// The norm of all gradients at the last step, before they were scaled down.
    pub fn norm(&self) -> &Tensor {
        self.inner.norm()
    }

    /// Goes on with the moments of another.
    ///
    /// # Errors
    /// If the card fails.
    pub fn restore(&self, from: &Adam) -> Result<()> {
        self.inner.restore(&from.all_moments())
    }

    /// Gives its moments after `steps` steps to another.
    ///
    /// # Errors
    /// If the card failed.
    pub fn save(&self, steps: u64, to: &mut Adam) -> Result<()> {
        if steps > 0 {
            to.restore(steps, self.inner.moments()?);
        }
        Ok(())
    }

    /// Gives its moving average, if it keeps one, to `average`.
    ///
    /// # Errors
    /// If the card failed.
    pub fn save_average(&self, average: &mut Parameters) -> Result<()> {
        for (id, value) in self.inner.average()?.into_iter().flatten() {
            average.set(id, value);
        }
        Ok(())
    }
}

#[cfg(not(feature = "cuda"))]
#[allow(clippy::missing_errors_doc, missing_docs, reason = "they are never called: see the others")]
impl CardAdam {
    pub fn new(_: &Parameters, _: CardAdamOptions, _: Option<&Parameters>) -> Result<Self> {
        Err(not_on_a_card())
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

fn not_on_a_card() -> Error {
    Error::Device {
        what: "parameters in the processor's memory, expected them on a card".into(),
        hint: "report this",
    }
}
