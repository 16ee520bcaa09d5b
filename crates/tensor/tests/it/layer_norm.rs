//! Layer normalisation with residual: the equation, its gradients, and independence of threads and batch.

use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    all_zero, assert_close, assert_threads_change_nothing, assert_values, assert_values_and_gradients, bits,
    run, tensor, tensors, wide,
};

const EPSILON: f32 = 1e-5;

/// γ (h − μ)/√(σ² + ε) + β with h = x·mask + residual, for inputs [x, γ, β] or [x, γ, β, residual].
fn equation(inputs: &[Vec<f64>], mask: Option<&[f64]>, epsilon: f64) -> Vec<f64> {
    let [x, gamma, beta] = [&inputs[0], &inputs[1], &inputs[2]];
    let width = gamma.len();
    let h: Vec<f64> = (0..x.len())
        .map(|i| x[i] * mask.map_or(1.0, |mask| mask[i]) + inputs.get(3).map_or(0.0, |other| other[i]))
        .collect();
    let rows = h.chunks_exact(width).flat_map(|row| {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|h| (h - mean).powi(2)).sum::<f64>() / width as f64;
        (0..width).map(move |i| gamma[i] * (row[i] - mean) / (variance + epsilon).sqrt() + beta[i])
    });
    rows.collect()
}

fn fused(epsilon: f32, dropout: f32) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    #[allow(clippy::needless_update, reason = "the options may grow")]
    let options = NormOptions { epsilon, dropout, ..Default::default() };
    move |tape, inputs| layer_norm(tape, &inputs[0], inputs.get(3), [&inputs[1], &inputs[2]], options)
}

#[test]
fn values_and_gradients_equal_the_equation() {
    let inputs = tensors(&[&[2, 3, 7], &[7], &[7], &[2, 3, 7]]);
    for (count, epsilon) in [(3, EPSILON), (4, EPSILON), (4, 0.3)] {
        assert_values_and_gradients(
            &format!("layer_norm of {count} inputs, epsilon {epsilon}"),
            &inputs[..count],
            fused(epsilon, 0.0),
            |inputs| equation(inputs, None, f64::from(epsilon)),
        );
    }
}

#[test]
fn a_value_that_is_its_own_residual_gets_both_gradients() {
    assert_values_and_gradients(
        "LayerNorm(x + x)",
        &tensors(&[&[3, 7], &[7], &[7]]),
        |tape, inputs| fused(EPSILON, 0.0)(tape, &[inputs, &inputs[..1]].concat()),
        |inputs| equation(&[inputs, &inputs[..1]].concat(), None, f64::from(EPSILON)),
    );
}

#[test]
fn dropout_is_the_same_in_the_backward_pass() {
    let inputs = tensors(&[&[6, 7], &[7], &[7], &[6, 7]]);
    // h = mask·x + residual, so the gradients of x and residual differ only by the mask.
    let (_, gradients) = run(&inputs, fused(EPSILON, 0.25));
    let [x, residual] = [0, 3].map(|side: usize| wide(gradients[side].as_ref().unwrap().data()));
    let mask: Vec<f64> = x.iter().zip(&residual).map(|(x, residual)| x / residual).collect();
    for &factor in &mask {
        assert!(factor == 0.0 || (factor - 4.0 / 3.0).abs() < 1e-6, "{factor}");
    }
    assert!(mask.contains(&0.0) && mask.iter().any(|&factor| factor != 0.0));
    assert_values_and_gradients("layer_norm with dropout", &inputs, fused(EPSILON, 0.25), |inputs| {
        equation(inputs, Some(&mask), f64::from(EPSILON))
    });
    // The same value on both sides: its gradient accumulates.
    assert_values_and_gradients(
        "LayerNorm(dropout(x) + x)",
        &inputs[..3],
        |tape, inputs| fused(EPSILON, 0.25)(tape, &[inputs, &inputs[..1]].concat()),
        |inputs| equation(&[inputs, &inputs[..1]].concat(), Some(&mask), f64::from(EPSILON)),
    );
}

#[test]
fn a_constant_row_gives_beta() {
    let inputs = [Tensor::new(&[1, 5], vec![3.25; 5]), tensor(&[5], 1), tensor(&[5], 2)];
    let (y, gradients) = run(&inputs, fused(EPSILON, 0.0));
    assert_eq!(y.data(), inputs[2].data());
    assert!(gradients.iter().flatten().all(|gradient| gradient.data().iter().all(|g| g.is_finite())));
}

#[test]
fn a_large_mean_costs_no_precision_beyond_that_of_the_inputs() {
    // 1000 + x in f32 keeps x to 3e-5; two passes over the row lose nothing further.
    let x: Vec<f32> = tensor(&[64], 1).data().iter().map(|x| x + 1000.0).collect();
    let inputs = [Tensor::new(&[1, 64], x), tensor(&[64], 2), tensor(&[64], 3)];
    let (y, _) = run(&inputs, fused(EPSILON, 0.0));
    let expected = equation(&inputs.each_ref().map(|input| wide(input.data())), None, f64::from(EPSILON));
    assert_close("large mean", y.data(), &expected, 2e-4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn values_are_correct_for_any_shape(rows in 1_usize..40, width in 4_usize..300, count in 3_usize..5) {
        let inputs = tensors(&[&[rows, width], &[width], &[width], &[rows, width]]);
        assert_values("layer_norm", &inputs[..count], fused(EPSILON, 0.0), |inputs| {
            equation(inputs, None, f64::from(EPSILON))
        });
    }

    // From three values per row: with two, equal ones make the equation too steep for differences.
    #[test]
    fn gradients_are_correct_for_any_shape(rows in 1_usize..6, width in 3_usize..40, count in 3_usize..5) {
        let inputs = tensors(&[&[rows, width], &[width], &[width], &[rows, width]]);
        assert_values_and_gradients("layer_norm", &inputs[..count], fused(1e-2, 0.0), |inputs| {
            equation(inputs, None, f64::from(1e-2_f32))
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let inputs = tensors(&[&[3, 301, 131], &[131], &[131], &[3, 301, 131]]);
    assert_threads_change_nothing(&inputs, fused(EPSILON, 0.0));
    assert_threads_change_nothing(&inputs, fused(EPSILON, 0.1));
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let inputs = tensors(&[&[17, 300], &[300], &[300], &[17, 300]]);
    let forward = |inputs: &[Tensor]| {
        let vars: Vec<Var> = inputs.iter().cloned().map(Var::constant).collect();
        bits(fused(EPSILON, 0.0)(&Tape::inference(), &vars).unwrap().value().data())
    };
    let whole = forward(&inputs);
    for row in 0..17 {
        let cut = |all: &Tensor| Tensor::new(&[1, 300], all.data()[row * 300..(row + 1) * 300].to_vec());
        let alone = forward(&[cut(&inputs[0]), inputs[1].clone(), inputs[2].clone(), cut(&inputs[3])]);
        assert_eq!(alone, whole[row * 300..(row + 1) * 300], "row {row}");
    }
}

#[test]
fn an_empty_input_gives_an_empty_output() {
    for shape in [[0, 5, 7], [2, 0, 7]] {
        let (y, gradients) = run(&tensors(&[&shape, &[7], &[7], &shape]), fused(EPSILON, 0.5));
        assert_eq!(y.shape(), shape);
        assert!(all_zero(&gradients));
    }
    let (y, _) = run(&tensors(&[&[3, 0], &[0], &[0]]), fused(EPSILON, 0.0));
    assert_eq!(y.shape(), [3, 0]);
}

#[test]
fn shapes_that_do_not_fit_are_errors_that_name_the_input() {
    for (shapes, expected) in [
        ([&[2, 7][..], &[6], &[7], &[2, 7]], "gamma"),
        ([&[2, 7], &[7], &[1, 7], &[2, 7]], "beta"),
        ([&[2, 7], &[7], &[7], &[7, 2]], "residual"),
        ([&[2, 7], &[7], &[7], &[7]], "residual"),
    ] {
        let vars: Vec<Var> = tensors(&shapes).into_iter().map(Var::constant).collect();
        match fused(EPSILON, 0.0)(&Tape::inference(), &vars).unwrap_err() {
            Error::Shape { operation, name, .. } => assert_eq!([operation, name], ["layer_norm", expected]),
            other => panic!("{other}"),
        }
    }
}
