//! An exponential moving average of parameters: a ← decay·a + (1 − decay)·θ after every step.
//!
//! Polyak & Juditsky 1992 average the path of a descent; the exponential form forgets its beginning.

use rayon::prelude::*;

use super::TASK;
use crate::lanes::vectorised;
use crate::parameters::Parameters;

/// Moves `average` towards `parameters`, which must belong to the same model. Frozen parameters keep their bits.
pub fn moving_average(average: &mut Parameters, parameters: &Parameters, decay: f32) {
    for (id, _, value) in parameters.iter().filter(|(id, _, _)| !parameters.is_frozen(*id)) {
        let average = average.value_mut(id).data_mut().par_chunks_mut(TASK);
        average
            .zip(value.data().par_chunks(TASK))
            .for_each(|(average, value)| approach(average, value, decay));
    }
}

vectorised! {
    fn approach(average: &mut [f32], value: &[f32], decay: f32) {
        for (average, value) in average.iter_mut().zip(value) {
            *average = decay * *average + (1.0 - decay) * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

    #[test]
    fn three_steps_by_hand() {
        let mut parameters = Parameters::default();
        let id = parameters.add("x", Tensor::new(&[2], vec![1.0, -2.0]));
        let mut average = parameters.clone();
        for value in [2.0, 4.0, 8.0] {
            parameters.set(id, Tensor::new(&[2], vec![value, -value]));
            moving_average(&mut average, &parameters, 0.5);
        }
        // ((1/2 + 2/2)/2 + 4/2)/2 + 8/2, and the same with -2 at the start.
        assert_eq!(average.value(id).data(), [5.375, -5.5]);
    }

    #[test]
    fn frozen_parameters_keep_their_bits() {
        let mut parameters = Parameters::default();
        let values: Vec<f32> = (1..100).map(|number| 1.0 / number as f32).collect();
        let id = parameters.add("x", Tensor::new(&[99], values.clone()));
        let mut average = parameters.clone();
        parameters.freeze(id);
        (0..50).for_each(|_| moving_average(&mut average, &parameters, 0.97));
        assert_eq!(average.value(id).data(), values);
    }
}
