//! Linear layers: the equation, its gradients, and independence of threads and batch.

use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::elementwise::{gelu_exact, gelu_tanh_exact};
use crate::finite_difference::{
    all_zero, assert_close, assert_threads_change_nothing, assert_values, assert_values_and_gradients, bits,
    run, tensor, tensors, wide,
};

const ACTIVATIONS: [Activation; 8] = [
    Activation::Relu,
    Activation::None,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::QuickGelu,
    Activation::Silu,
    Activation::Tanh,
    Activation::Sigmoid,
];

fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => gelu_exact(x),
        Activation::GeluTanh => gelu_tanh_exact(x),
        Activation::QuickGelu => x * sigma(1.702 * x),
        Activation::Silu => x * sigma(x),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigma(x),
        Activation::None => x,
    }
}

/// act(x·Wᵀ + b) for inputs [x, W] or [x, W, b].
fn equation(inputs: &[Vec<f64>], [d_in, d_out]: [usize; 2], activation: Activation) -> Vec<f64> {
    let rows = inputs[0].chunks_exact(d_in);
    let outputs = rows.flat_map(|x| {
        (0..d_out).map(|o| {
            let product: f64 = x.iter().zip(&inputs[1][o * d_in..]).map(|(x, w)| x * w).sum();
            activate(activation, product + inputs.get(2).map_or(0.0, |bias| bias[o]))
        })
    });
    outputs.collect()
}

fn options(activation: Activation, dropout: f32) -> LinearOptions {
    #[allow(clippy::needless_update, reason = "the options may grow")]
    LinearOptions { activation, dropout, ..Default::default() }
}

fn fused(activation: Activation, dropout: f32) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| linear(tape, &inputs[0], &inputs[1], inputs.get(2), options(activation, dropout))
}

#[test]
fn values_and_gradients_equal_the_equation() {
    for activation in ACTIVATIONS {
        let inputs = tensors(&[&[2, 3, 5], &[7, 5], &[7]]);
        for count in [2, 3] {
            assert_values_and_gradients(
                &format!("linear {activation:?} of {count} inputs"),
                &inputs[..count],
                fused(activation, 0.0),
                |inputs| equation(inputs, [5, 7], activation),
            );
        }
    }
}

#[test]
fn activations_are_accurate_far_from_zero() {
    let x = Tensor::new(&[8, 1], vec![-90.0, -30.0, -6.0, -2.5, 2.5, 6.0, 30.0, 90.0]);
    for activation in ACTIVATIONS {
        assert_values_and_gradients(
            &format!("{activation:?}"),
            &[x.clone(), Tensor::new(&[1, 1], vec![1.0])],
            fused(activation, 0.0),
            |inputs| equation(inputs, [1, 1], activation),
        );
    }
}

#[test]
fn dropout_is_the_same_in_the_backward_pass() {
    let inputs = tensors(&[&[6, 5], &[7, 5], &[7]]);
    let (whole, _) = run(&inputs, fused(Activation::None, 0.0));
    let (dropped, _) = run(&inputs, fused(Activation::None, 0.25));
    let mask: Vec<f64> =
        dropped.data().iter().zip(whole.data()).map(|(&a, &b)| f64::from(a) / f64::from(b)).collect();
    for &factor in &mask {
        assert!(factor == 0.0 || (factor - 4.0 / 3.0).abs() < 1e-6, "{factor}");
    }
    assert!(mask.contains(&0.0) && mask.iter().any(|&factor| factor != 0.0));
    for activation in ACTIVATIONS {
        assert_values_and_gradients(
            &format!("linear {activation:?} with dropout"),
            &inputs,
            fused(activation, 0.25),
            |inputs| {
                let y = equation(inputs, [5, 7], activation);
                y.iter().zip(&mask).map(|(y, mask)| y * mask).collect()
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn values_are_correct_for_any_shape(
        rows in 1_usize..40, d_in in 1_usize..300, d_out in 1_usize..70, which in 0_usize..8, count in 2_usize..4,
    ) {
        let inputs = tensors(&[&[rows, d_in], &[d_out, d_in], &[d_out]]);
        assert_values("linear", &inputs[..count], fused(ACTIVATIONS[which], 0.0), |inputs| {
            equation(inputs, [d_in, d_out], ACTIVATIONS[which])
        });
    }

    // Without ReLU: at its kink differences are not derivatives, and a random shape may hit it.
    #[test]
    fn gradients_are_correct_for_any_shape(
        rows in 1_usize..6, d_in in 1_usize..20, d_out in 1_usize..20, which in 1_usize..8, count in 2_usize..4,
    ) {
        let activation = ACTIVATIONS[which];
        let inputs = tensors(&[&[rows, d_in], &[d_out, d_in], &[d_out]]);
        assert_values_and_gradients("linear", &inputs[..count], fused(activation, 0.0), |inputs| {
            equation(inputs, [d_in, d_out], activation)
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let inputs = tensors(&[&[3, 101, 130], &[257, 130], &[257]]);
    for activation in ACTIVATIONS {
        assert_threads_change_nothing(&inputs, fused(activation, 0.1));
    }
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let [x, weight, bias] = [tensor(&[17, 300], 1), tensor(&[100, 300], 2), tensor(&[100], 3)];
    for activation in ACTIVATIONS {
        let forward = |x: Tensor| {
            let [x, weight, bias] = [x, weight.clone(), bias.clone()].map(Var::constant);
            linear(&Tape::inference(), &x, &weight, Some(&bias), options(activation, 0.0)).unwrap()
        };
        let whole = forward(x.clone());
        for row in 0..17 {
            let alone = forward(Tensor::new(&[1, 300], x.data()[row * 300..(row + 1) * 300].to_vec()));
            assert_eq!(
                bits(alone.value().data()),
                bits(&whole.value().data()[row * 100..(row + 1) * 100]),
                "row {row} with {activation:?}"
            );
        }
    }
}

#[test]
fn empty_inputs_give_zeros() {
    for activation in ACTIVATIONS {
        // No rows: the output is empty, and the weights get zeros.
        let (y, gradients) = run(&tensors(&[&[0, 5], &[7, 5], &[7]]), fused(activation, 0.0));
        assert_eq!(y.shape(), [0, 7]);
        assert!(all_zero(&gradients));
        let (y, gradients) = run(&tensors(&[&[2, 0, 5], &[7, 5], &[7]]), fused(activation, 0.5));
        assert_eq!(y.shape(), [2, 0, 7]);
        assert!(all_zero(&gradients));
        // No outputs: x gets zeros.
        let (y, gradients) = run(&tensors(&[&[3, 5], &[0, 5], &[0]]), fused(activation, 0.0));
        assert_eq!(y.shape(), [3, 0]);
        assert!(all_zero(&gradients));
        // No inputs: only the bias remains.
        let inputs = tensors(&[&[3, 0], &[7, 0], &[7]]);
        let (y, _) = run(&inputs, fused(activation, 0.0));
        let expected: Vec<f64> = wide(inputs[2].data()).iter().map(|&b| activate(activation, b)).collect();
        assert_close("bias alone", y.data(), &expected.repeat(3), 1e-6);
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors_that_name_the_input() {
    let error = |shapes: &[&[usize]]| {
        let vars: Vec<Var> = tensors(shapes).into_iter().map(Var::constant).collect();
        fused(Activation::None, 0.0)(&Tape::inference(), &vars).unwrap_err()
    };
    let named = |error: Error, expected: &str| match error {
        Error::Shape { operation, name, .. } => assert_eq!([operation, name], ["linear", expected]),
        other => panic!("{other}"),
    };
    named(error(&[&[2, 5], &[7, 4]]), "weight");
    named(error(&[&[2, 5], &[7]]), "weight");
    named(error(&[&[2, 5], &[7, 5], &[6]]), "bias");
    named(error(&[&[2, 5], &[7, 5], &[1, 7]]), "bias");
    named(error(&[&[], &[7, 1]]), "x");
}

#[test]
fn a_dropout_probability_of_one_is_an_error() {
    let vars: Vec<Var> = tensors(&[&[2, 5], &[7, 5]]).into_iter().map(Var::constant).collect();
    for probability in [1.0, -0.1, f32::NAN] {
        let result = fused(Activation::None, probability)(&Tape::inference(), &vars);
        assert!(matches!(result, Err(Error::Value { .. })), "{probability}");
    }
}
