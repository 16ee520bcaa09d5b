//! Dropout: a pure function of (seed, step, call site), the same forward and backward, and with the right frequency.

use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::{Error, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    assert_threads_change_nothing, assert_values_and_gradients, bits, numbers, run, tensor,
};

/// Masks of the first two call sites of a step: dropout of ones.
fn masks([seed, step]: [u64; 2], len: usize, probability: f32) -> [Vec<f32>; 2] {
    let tape = Tape::training(seed, step);
    let ones = Var::constant(Tensor::new(&[len], vec![1.0; len]));
    [0, 1].map(|_| dropout(&tape, &ones, probability).unwrap().value().data().to_vec())
}

#[test]
fn the_mask_is_a_function_of_seed_and_step() {
    let [first, second] = masks([1, 2], 500, 0.3);
    assert_eq!([first.clone(), second.clone()], masks([1, 2], 500, 0.3));
    let others = [masks([1, 3], 500, 0.3), masks([2, 2], 500, 0.3), masks([2, 1], 500, 0.3)];
    let all: Vec<&Vec<f32>> = [&first, &second].into_iter().chain(others.iter().flatten()).collect();
    for (index, a) in all.iter().enumerate() {
        for b in &all[index + 1..] {
            // Independent masks agree at 0.7² + 0.3² = 58 % of the indices.
            let agree = a.iter().zip(b.iter()).filter(|(a, b)| a == b).count();
            assert!((230..350).contains(&agree), "{agree} of 500");
        }
    }
}

#[test]
fn the_right_share_is_dropped_and_the_mean_is_preserved() {
    let len = 200_000;
    for probability in [0.01_f32, 0.1, 0.3, 0.5, 0.9] {
        let p = f64::from(probability);
        let [mask, _] = masks([7, 7], len, probability);
        let dropped = mask.iter().filter(|&&factor| factor == 0.0).count() as f64;
        // Five standard deviations, and sixteen bits for the probability.
        let allowed = 5.0 * (len as f64 * p * (1.0 - p)).sqrt() + len as f64 / 131_072.0;
        assert!((dropped - p * len as f64).abs() < allowed, "{dropped} of {len} at {p}");
        let mean = mask.iter().map(|&factor| f64::from(factor)).sum::<f64>() / len as f64;
        assert!((mean - 1.0).abs() < allowed / len as f64 / (1.0 - p), "mean {mean} at {p}");
        let kept = mask.iter().copied().fold(0.0, f32::max);
        assert!(mask.iter().all(|&factor| factor == 0.0 || factor == kept));
        assert!((f64::from(kept) * (1.0 - p) - 1.0).abs() < 1e-4, "kept times {kept} at {p}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn values_and_gradients_have_the_same_mask(rows in 0_usize..30, width in 1_usize..30, percent in 1_u32..99) {
        let probability = percent as f32 / 100.0;
        let shape = [rows, width];
        let fused = |tape: &Tape, inputs: &[Var]| dropout(tape, &inputs[0], probability);
        let (mask, _) = run(&[Tensor::new(&shape, vec![1.0; rows * width])], fused);
        assert_values_and_gradients("dropout", &[tensor(&shape, 1)], fused, |inputs| {
            inputs[0].iter().zip(mask.data()).map(|(x, &mask)| x * f64::from(mask)).collect()
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    assert_threads_change_nothing(&[tensor(&[301, 211], 1)], |tape, inputs| dropout(tape, &inputs[0], 0.1));
}

#[test]
fn the_mask_of_a_prefix_is_the_prefix_of_the_mask() {
    let [long, _] = masks([1, 1], 1000, 0.4);
    for len in [1, 127, 128, 129, 777] {
        assert_eq!(masks([1, 1], len, 0.4)[0], long[..len]);
    }
}

#[test]
fn nothing_is_dropped_at_zero_or_without_training() {
    let x = numbers(300, 1);
    for (tape, probability) in [(Tape::inference(), 0.9), (Tape::training(1, 1), 0.0)] {
        let y = dropout(&tape, &Var::constant(Tensor::new(&[300], x.clone())), probability).unwrap();
        assert_eq!(bits(y.value().data()), bits(&x));
    }
}

#[test]
fn probabilities_near_one_stay_finite() {
    for probability in [0.9999, 0.999_999, 1.0 - f32::EPSILON / 2.0] {
        let [mask, _] = masks([1, 1], 10_000, probability);
        assert!(mask.iter().all(|factor| factor.is_finite()));
    }
}

#[test]
fn a_probability_outside_zero_to_one_is_an_error() {
    let x = Var::constant(tensor(&[3], 1));
    for probability in [1.0, 1.5, -0.1, f32::NAN, f32::INFINITY] {
        for tape in [Tape::training(1, 1), Tape::inference()] {
            let error = dropout(&tape, &x, probability).unwrap_err();
            assert!(matches!(error, Error::Value { operation: "dropout", .. }), "{error}");
        }
    }
}
