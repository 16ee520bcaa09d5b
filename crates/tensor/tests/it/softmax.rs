//! Softmax and its logarithm: values, gradients, extreme rows.

use polyhead_tensor::ops::softmax::{log_softmax, softmax};
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{check, golden, numbers, run, same_bits};

fn log_reference(width: usize, data: &[f64]) -> Vec<f64> {
    data.chunks(width)
        .flat_map(|row| {
            let total = row.iter().map(|x| x.exp()).sum::<f64>().ln();
            row.iter().map(move |x| x - total)
        })
        .collect()
}

#[test]
fn equal_to_the_reference() {
    for shape in [&[1, 1][..], &[2, 3, 5], &[4, 16], &[3, 37]] {
        let inputs = [numbers(shape, 1, [-3.0, 3.0])];
        let width = shape[shape.len() - 1];
        let log = |inputs: &[Vec<f64>]| log_reference(width, &inputs[0]);
        check("log_softmax", &inputs, |tape, vars| log_softmax(tape, &vars[0]), log);
        let plain = |inputs: &[Vec<f64>]| log(inputs).into_iter().map(f64::exp).collect();
        if width > 1 {
            check("softmax", &inputs, |tape, vars| softmax(tape, &vars[0]), plain);
        }
    }
}

#[test]
fn equal_to_pytorch() {
    golden(&["softmax", "log_softmax"], |name, tape, vars| {
        if name == "softmax" { softmax(tape, &vars[0]) } else { log_softmax(tape, &vars[0]) }
    });
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let inputs = [numbers(&[300, 333], 1, [-5.0, 5.0])];
    same_bits("softmax", &inputs, |tape, vars| softmax(tape, &vars[0]));
    same_bits("log_softmax", &inputs, |tape, vars| log_softmax(tape, &vars[0]));
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let x = numbers(&[7, 45], 1, [-5.0, 5.0]);
    let tape = Tape::inference();
    for operation in [softmax, log_softmax] {
        let whole = operation(&tape, &Var::constant(x.clone()));
        for row in 0..7 {
            let alone = Tensor::new(&[45], x.data()[row * 45..(row + 1) * 45].to_vec());
            let alone = operation(&tape, &Var::constant(alone));
            assert_eq!(alone.value().data(), &whole.value().data()[row * 45..(row + 1) * 45]);
        }
    }
}

#[test]
fn extreme_rows() {
    const LOW: f32 = f32::NEG_INFINITY;
    let tape = Tape::inference();
    let of = |operation: fn(&Tape, &Var) -> Var, data: &[f32]| {
        let x = Var::constant(Tensor::new(&[data.len()], data.to_vec()));
        operation(&tape, &x).value().data().to_vec()
    };
    assert_eq!(of(softmax, &[1e30, 1e30, -1e30]), [0.5, 0.5, 0.0]);
    assert_eq!(of(softmax, &[LOW, 3.0]), [0.0, 1.0]);
    assert_eq!(of(softmax, &[LOW, LOW]), [0.0, 0.0]);
    assert_eq!(of(log_softmax, &[LOW, 3.0]), [LOW, 0.0]);
    assert_eq!(of(log_softmax, &[LOW, LOW]), [LOW, LOW]);
    assert!(of(softmax, &[1.0, f32::NAN]).iter().all(|number| number.is_nan()));
    assert!(of(log_softmax, &[1.0, f32::NAN]).iter().all(|number| number.is_nan()));
    let scalar = softmax(&tape, &Var::constant(Tensor::scalar(5.0)));
    assert_eq!(scalar.value().data(), [1.0]);
    for shape in [[0, 3], [3, 0]] {
        for operation in [softmax, log_softmax] {
            let (y, _) = run(&[Tensor::zeros(&shape)], None, |tape, vars| operation(tape, &vars[0]));
            assert_eq!(y.shape(), shape);
        }
    }
}
