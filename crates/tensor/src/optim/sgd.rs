//! Stochastic gradient descent, optionally with momentum.
//!
//! Robbins & Monro 1951; Polyak 1964; Nesterov 1983 as written by Sutskever et al. 2013. With g the gradient plus λθ:
//! θ ← θ − ηg without momentum; v ← μv + g and θ ← θ − ηv with it; θ ← θ − η(g + μv) after Nesterov.

use std::collections::HashMap;

use rayon::prelude::*;

use super::TASK;
use crate::lanes::vectorised;
use crate::parameters::{ParameterId, Parameters};
use crate::tape::Gradients;
use crate::tensor::Tensor;

/// Momentum: how past gradients contribute.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Momentum {
    /// No momentum.
    #[default]
    None,
    /// A velocity that decays by the factor μ; often 0.9.
    Classical(f32),
    /// Nesterov momentum with factor μ: looks one step ahead.
    Nesterov(f32),
}

/// Options of stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SgdOptions {
    /// Learning rate η; the caller may change it before every step. Default: 1e-2.
    pub learning_rate: f32,
    /// Momentum. Default: none.
    pub momentum: Momentum,
    /// Weight decay λ, added to the gradient as λθ. Default: 0.
    pub weight_decay: f32,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-2, momentum: Momentum::None, weight_decay: 0.0 }
    }
}

/// Stochastic gradient descent and, with momentum, its state: one value per parameter.
#[derive(Debug, Default)]
pub struct Sgd {
    /// Options; may change between steps.
    pub options: SgdOptions,
    velocities: HashMap<ParameterId, Tensor>,
}

impl Sgd {
    /// An optimiser before its first step.
    pub fn new(options: SgdOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Updates every parameter that has a gradient.
    pub fn step(&mut self, parameters: &mut Parameters, gradients: &Gradients) {
        let options = self.options;
        for (id, gradient) in gradients.parameters() {
            let values = parameters.value_mut(id).data_mut().par_chunks_mut(TASK);
            let pairs = values.zip(gradient.data().par_chunks(TASK));
            if options.momentum == Momentum::None {
                pairs.for_each(|(value, gradient)| descend(value, gradient, options));
            } else {
                let velocity = self.velocities.entry(id).or_insert_with(|| Tensor::zeros(gradient.shape()));
                pairs
                    .zip(velocity.data_mut().par_chunks_mut(TASK))
                    .for_each(|((value, gradient), velocity)| roll(value, gradient, velocity, options));
            }
        }
    }
}

vectorised! {
    fn descend(value: &mut [f32], gradient: &[f32], options: SgdOptions) {
        for (value, g) in value.iter_mut().zip(gradient) {
            *value -= options.learning_rate * (g + options.weight_decay * *value);
        }
    }
}

vectorised! {
    fn roll(value: &mut [f32], gradient: &[f32], velocity: &mut [f32], options: SgdOptions) {
        let (share, ahead) = match options.momentum {
            Momentum::None => (0.0, false),
            Momentum::Classical(share) => (share, false),
            Momentum::Nesterov(share) => (share, true),
        };
        for ((value, g), v) in value.iter_mut().zip(gradient).zip(velocity) {
            let g = g + options.weight_decay * *value;
            *v = share * *v + g;
            let direction = if ahead { g + share * *v } else { *v };
            *value -= options.learning_rate * direction;
        }
    }
}
