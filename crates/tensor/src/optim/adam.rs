//! Adam with decoupled weight decay.
//!
//! Kingma & Ba 2015; Loshchilov & Hutter 2019. For gradient g at step t:
//! m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ − η(m̂/(√v̂ + ε) + λθ) with m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

use std::collections::HashMap;

use rayon::prelude::*;

use super::TASK;
use crate::lanes::vectorised;
use crate::parameters::{ParameterId, Parameters};
use crate::tape::Gradients;
use crate::tensor::Tensor;

/// Options of Adam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamOptions {
    /// Learning rate η; the caller may change it before every step. Default: 1e-3.
    pub learning_rate: f32,
    /// β₁. Default: 0.9.
    pub beta1: f32,
    /// β₂. Default: 0.999; the Transformer paper uses 0.98.
    pub beta2: f32,
    /// ε. Default: 1e-8.
    pub epsilon: f32,
    /// Weight decay λ. Default: 0.
    pub weight_decay: f32,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

/// Adam and its state: two values per parameter.
#[derive(Debug, Default)]
pub struct Adam {
    /// Options; may change between steps.
    pub options: AdamOptions,
    step: i32,
    moments: HashMap<ParameterId, [Tensor; 2]>,
}

impl Adam {
    /// An optimiser before its first step.
    pub fn new(options: AdamOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Number of steps taken.
    pub fn steps(&self) -> u64 {
        self.step as u64
    }

    /// m and v of a parameter; `None` before its first gradient.
    pub fn moments(&self, id: ParameterId) -> Option<&[Tensor; 2]> {
        self.moments.get(&id)
    }

    /// m and v of all parameters that have had a gradient.
    #[cfg(feature = "cuda")]
    pub(super) fn all_moments(&self) -> Vec<(ParameterId, [Tensor; 2])> {
        let mut all: Vec<_> = self.moments.iter().map(|(id, moments)| (*id, moments.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Resumes from saved state: the number of steps, and m and v of each parameter that has had a gradient.
    pub fn restore(&mut self, steps: u64, moments: impl IntoIterator<Item = (ParameterId, [Tensor; 2])>) {
        self.step = i32::try_from(steps).unwrap_or(i32::MAX);
        self.moments = moments.into_iter().collect();
    }

    /// Updates every parameter that has a gradient.
    pub fn step(&mut self, parameters: &mut Parameters, gradients: &Gradients) {
        self.step += 1;
        let AdamOptions { learning_rate, beta1, beta2, epsilon, weight_decay } = self.options;
        let corrections = [1.0 - beta1.powi(self.step), 1.0 - beta2.powi(self.step)];
        let rates = Rates {
            beta1,
            beta2,
            epsilon,
            rate: learning_rate / corrections[0],
            decay: 1.0 - learning_rate * weight_decay,
            root: 1.0 / corrections[1].sqrt(),
        };
        for (id, gradient) in gradients.parameters() {
            let zeros = || [Tensor::zeros(gradient.shape()), Tensor::zeros(gradient.shape())];
            let [m, v] = self.moments.entry(id).or_insert_with(zeros);
            parameters
                .value_mut(id)
                .data_mut()
                .par_chunks_mut(TASK)
                .zip(m.data_mut().par_chunks_mut(TASK))
                .zip(v.data_mut().par_chunks_mut(TASK))
                .zip(gradient.data().par_chunks(TASK))
                .for_each(|(((value, m), v), gradient)| update(value, [m, v], gradient, rates));
        }
    }
}

#[derive(Clone, Copy)]
struct Rates {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    rate: f32,
    decay: f32,
    root: f32,
}

vectorised! {
    fn update(value: &mut [f32], moments: [&mut [f32]; 2], gradient: &[f32], rates: Rates) {
        let [m, v] = moments;
        for (((value, m), v), &g) in value.iter_mut().zip(m).zip(v).zip(gradient) {
            *m = rates.beta1 * *m + (1.0 - rates.beta1) * g;
            *v = rates.beta2 * *v + (1.0 - rates.beta2) * g * g;
            *value = *value * rates.decay - rates.rate * *m / (v.sqrt() * rates.root + rates.epsilon);
        }
    }
}
