//! Gated activations: values, gradients, threads, bad shapes.

use polyhead_tensor::ops::gated::gated;
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{check, numbers, same_bits};

type Reference = fn(f64) -> f64;

#[test]
fn equal_to_the_reference() {
    let references: [(Activation, Reference); 4] = [
        (Activation::Silu, |x| x / (1.0 + (-x).exp())),
        (Activation::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (Activation::GeluTanh, |x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
        }),
        (Activation::None, |x| x),
    ];
    for (activation, reference) in references {
        for width in [1, 5, 37] {
            check(
                "gated",
                &[numbers(&[2, 3, 2 * width], 1, [-2.0, 2.0])],
                |tape, vars| gated(tape, &vars[0], activation).unwrap(),
                |inputs| {
                    let rows = inputs[0].chunks(2 * width);
                    rows.flat_map(|row| (0..width).map(|at| reference(row[at]) * row[width + at])).collect()
                },
            );
        }
    }
}

#[test]
fn threads_change_no_bit() {
    same_bits("gated", &[numbers(&[300, 2 * 131], 3, [-2.0, 2.0])], |tape, vars| {
        gated(tape, &vars[0], Activation::Silu).unwrap()
    });
}

#[test]
fn the_last_axis_has_two_halves() {
    for shape in [&[2, 3][..], &[4, 0], &[]] {
        let x = Var::constant(Tensor::zeros(shape));
        let error = gated(&Tape::inference(), &x, Activation::Silu).unwrap_err().to_string();
        assert!(error.contains("an even last axis"), "{error}");
    }
}
