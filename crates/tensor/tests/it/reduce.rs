//! Sums, means and maxima: values, gradients, one order of summation, bad axes.

use polyhead_tensor::ops::reduce::{Over, max, mean, sum};
use polyhead_tensor::ops::shape::transpose;
use polyhead_tensor::{Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::gradient::{check, golden, numbers, run, same_bits};

type Reduction = fn(&Tape, &Var, Over) -> Result<Var>;
type Exact = fn(&[f64]) -> f64;

const ALL: [(&str, Reduction, Exact); 3] = [
    ("sum", sum, |row| row.iter().sum()),
    ("mean", mean, |row| row.iter().sum::<f64>() / row.len() as f64),
    ("max", max, |row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
];

fn reference(shape: &[usize], over: Over, data: &[f64], exact: Exact) -> Vec<f64> {
    let (outer, n, inner): (usize, usize, usize) = match over {
        Over::All => (1, data.len(), 1),
        Over::Axis(axis) => (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()),
    };
    let at = |index: usize, k: usize| data[(index / inner * n + k) * inner + index % inner];
    (0..outer * inner).map(|index| exact(&(0..n).map(|k| at(index, k)).collect::<Vec<_>>())).collect()
}

fn check_all(shape: &[usize]) {
    let inputs = [numbers(shape, 1, [-2.0, 2.0])];
    for (name, operation, exact) in ALL {
        for over in (0..shape.len()).map(Over::Axis).chain([Over::All]) {
            check(
                &format!("{name} {shape:?} {over:?}"),
                &inputs,
                |tape, vars| operation(tape, &vars[0], over).unwrap(),
                |inputs| reference(shape, over, &inputs[0], exact),
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn equal_to_the_reference(shape in prop::collection::vec(1_usize..6, 0..4)) {
        check_all(&shape);
    }
}

#[test]
fn equal_to_pytorch() {
    golden(&["sum", "mean", "max"], |name, tape, vars| {
        let (first, rest) = name.split_once(' ').unwrap();
        let over = rest.parse().map_or(Over::All, Over::Axis);
        ALL.iter().find(|row| row.0 == first).unwrap().1(tape, &vars[0], over).unwrap()
    });
}

#[test]
fn every_axis_is_summed_in_the_same_order() {
    for n in [1, 15, 16, 17, 100, 4096, 4097, 10_000, 70_001] {
        let tape = Tape::inference();
        let x = Var::constant(numbers(&[3, n], 1, [-1.0, 1.0]));
        let rows = sum(&tape, &x, Over::Axis(1)).unwrap();
        let columns = sum(&tape, &transpose(&tape, &x, [0, 1]).unwrap(), Over::Axis(0)).unwrap();
        assert_eq!(rows.value().data(), columns.value().data(), "n = {n}");
        let first = Var::constant(Tensor::new(&[n], x.value().data()[..n].to_vec()));
        assert_eq!(sum(&tape, &first, Over::All).unwrap().value().data()[0], rows.value().data()[0]);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for shape in [&[200, 1000][..], &[3, 50_000], &[70_000, 2], &[20, 100, 70]] {
        let inputs = [numbers(shape, 1, [-2.0, 2.0])];
        for (name, operation, _) in ALL {
            for over in (0..shape.len()).map(Over::Axis).chain([Over::All]) {
                same_bits(name, &inputs, |tape, vars| operation(tape, &vars[0], over).unwrap());
            }
        }
    }
}

#[test]
fn the_gradient_of_a_maximum_goes_to_the_first() {
    let x = Tensor::new(&[2, 3], vec![1.0, 7.0, 7.0, 5.0, 5.0, 2.0]);
    let ones = Tensor::new(&[2], vec![1.0; 2]);
    let (y, gradients) =
        run(std::slice::from_ref(&x), Some(&ones), |tape, vars| max(tape, &vars[0], Over::Axis(1)).unwrap());
    assert_eq!(y.data(), [7.0, 5.0]);
    assert_eq!(gradients[0].data(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    let one = Tensor::scalar(1.0);
    let (_, gradients) = run(&[x], Some(&one), |tape, vars| max(tape, &vars[0], Over::All).unwrap());
    assert_eq!(gradients[0].data(), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    let tape = Tape::inference();
    let holes = Var::constant(Tensor::new(&[3], vec![1.0, f32::NAN, 9.0]));
    assert!(max(&tape, &holes, Over::All).unwrap().value().data()[0].is_nan());
}

#[test]
fn an_empty_sum_is_zero_and_has_no_mean() {
    let tape = Tape::inference();
    let x = Var::constant(Tensor::zeros(&[2, 0]));
    assert_eq!(sum(&tape, &x, Over::Axis(1)).unwrap().value().data(), [0.0, 0.0]);
    assert_eq!(sum(&tape, &x, Over::All).unwrap().value().data(), [0.0]);
    for (name, operation, _) in &ALL[1..] {
        let message = operation(&tape, &x, Over::Axis(1)).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("{name}: x has shape [2, 0], expected at least one value along the axis")
        );
        assert!(operation(&tape, &x, Over::All).is_err());
        assert_eq!(operation(&tape, &x, Over::Axis(0)).unwrap().shape(), [0]);
    }
    for (name, operation, _) in ALL {
        let message = operation(&tape, &x, Over::Axis(2)).unwrap_err().to_string();
        assert_eq!(message, format!("{name}: x has shape [2, 0], expected an axis 2, counted from 0"));
        let empty = [Tensor::zeros(&[0, 3])];
        run(&empty, None, |tape, vars| operation(tape, &vars[0], Over::Axis(1)).unwrap());
    }
}
