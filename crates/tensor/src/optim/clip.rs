//! Gradient clipping by the global norm: all gradients together are scaled down to a largest norm.
//!
//! Pascanu, Mikolov & Bengio 2013.

use crate::lanes::{sum, vectorised};
use crate::parallel;
use crate::tape::Gradients;

/// Scales all gradients so that their global norm is at most `max_norm`; returns the norm before clipping.
pub fn clip_global_norm(gradients: &mut Gradients, max_norm: f32) -> f32 {
    // Blocks of fixed size, added in order and in f64: the same for any number of threads.
    let squares = |data: &[f32]| data.chunks(4096).map(|block| f64::from(square_sum(block))).sum::<f64>();
    let norm =
        gradients.parameters().map(|(_, gradient)| squares(gradient.data())).sum::<f64>().sqrt() as f32;
    if norm > max_norm {
        let factor = max_norm / norm;
        for (_, gradient) in gradients.parameters_mut() {
            parallel::elements(gradient.data_mut(), |_, block| scale(block, factor));
        }
    }
    norm
}

vectorised! {
    fn square_sum(block: &[f32]) -> f32 {
        sum(block, |x| x * x)
    }
}

vectorised! {
    fn scale(block: &mut [f32], factor: f32) {
        for number in block {
            *number *= factor;
        }
    }
}
