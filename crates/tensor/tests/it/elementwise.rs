//! Elementwise operations: values, gradients, broadcasting, bad shapes.

use polyhead_tensor::ops::elementwise::{
    add, div, exp, gelu, gelu_tanh, ln, mul, neg, quick_gelu, relu, scale, sigmoid, silu, sqrt, square, sub,
    tanh,
};
use polyhead_tensor::{Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::gradient::{check, golden, numbers, run, same_bits};

type Binary = fn(&Tape, &Var, &Var) -> Result<Var>;
type Unary = fn(&Tape, &Var) -> Var;
type Exact1 = fn(f64) -> f64;
type Exact2 = fn(f64, f64) -> f64;

const BINARY: [(&str, Binary, Exact2); 4] = [
    ("add", add, |a, b| a + b),
    ("sub", sub, |a, b| a - b),
    ("mul", mul, |a, b| a * b),
    ("div", div, |a, b| a / b),
];

fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x·Φ(x), Φ from a series without cancellation.
pub(crate) fn gelu_exact(x: f64) -> f64 {
    let z = x * std::f64::consts::FRAC_1_SQRT_2;
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= 2.0 * z * z / f64::from(2 * n + 1);
        sum += term;
    }
    let erf = std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * sum;
    0.5 * x * (1.0 + if z.abs() < 6.0 { erf } else { z.signum() })
}

pub(crate) fn gelu_tanh_exact(x: f64) -> f64 {
    0.5 * x * (1.0 + (std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044_715 * x * x * x)).tanh())
}

const UNARY: [(&str, Unary, Exact1, [f64; 2]); 13] = [
    ("scale", |tape, x| scale(tape, x, -1.75), |x| -1.75 * x, [-3.0, 3.0]),
    ("neg", neg, |x| -x, [-3.0, 3.0]),
    ("square", square, |x| x * x, [-3.0, 3.0]),
    ("sqrt", sqrt, f64::sqrt, [0.1, 9.0]),
    ("exp", exp, f64::exp, [-9.0, 9.0]),
    ("ln", ln, f64::ln, [0.05, 50.0]),
    ("tanh", tanh, f64::tanh, [-4.0, 4.0]),
    ("sigmoid", sigmoid, sigma, [-8.0, 8.0]),
    ("relu", relu, |x| x.max(0.0), [-3.0, 3.0]),
    ("gelu", gelu, gelu_exact, [-4.0, 4.0]),
    ("gelu_tanh", gelu_tanh, gelu_tanh_exact, [-4.0, 4.0]),
    ("quick_gelu", quick_gelu, |x| x * sigma(1.702 * x), [-4.0, 4.0]),
    ("silu", silu, |x| x * sigma(x), [-8.0, 8.0]),
];

/// The index in a tensor of `shape` that broadcasts to `index` of a tensor of `out`.
fn source(shape: &[usize], out: &[usize], mut index: usize) -> usize {
    let (mut at, mut stride) = (0, 1);
    for (axis, &size) in out.iter().enumerate().rev() {
        let here = index % size;
        index /= size;
        if let Some(own) = (axis + shape.len()).checked_sub(out.len()) {
            at += if shape[own] == 1 { 0 } else { here * stride };
            stride *= shape[own];
        }
    }
    at
}

fn check_pair(left: &[usize], right: &[usize], out: &[usize]) {
    let inputs = [numbers(left, 1, [-2.0, 2.0]), numbers(right, 2, [0.5, 2.0])];
    for (name, operation, exact) in BINARY {
        check(
            &format!("{name} {left:?} {right:?}"),
            &inputs,
            |tape, vars| {
                let y = operation(tape, &vars[0], &vars[1]).unwrap();
                assert_eq!(y.shape(), out);
                y
            },
            |sides| {
                let count = out.iter().product();
                let side = |side: usize, index| sides[side][source([left, right][side], out, index)];
                (0..count).map(|index| exact(side(0, index), side(1, index))).collect()
            },
        );
    }
}

#[test]
fn functions_equal_their_references() {
    for (name, operation, exact, range) in UNARY {
        let inputs = [numbers(&[3, 23], 1, range)];
        let reference = |inputs: &[Vec<f64>]| inputs[0].iter().map(|&x| exact(x)).collect();
        check(name, &inputs, |tape, vars| operation(tape, &vars[0]), reference);
    }
}

#[test]
fn equal_to_pytorch() {
    let names = UNARY.iter().map(|row| row.0).chain(BINARY.iter().map(|row| row.0));
    let names: Vec<&str> = names.filter(|name| !matches!(*name, "gelu_tanh" | "quick_gelu")).collect();
    golden(&names, |name, tape, vars| {
        // The script asks for approximate="tanh".
        let first = name.split(' ').next().unwrap().replace("gelu", "gelu_tanh");
        let unary = UNARY.iter().find(|row| row.0 == first);
        let binary = BINARY.iter().find(|row| row.0 == first);
        unary
            .map_or_else(|| binary.unwrap().1(tape, &vars[0], &vars[1]).unwrap(), |row| row.1(tape, &vars[0]))
    });
}

/// A shape, and for each axis which sides have it; sides may lack leading axes.
fn shapes() -> impl Strategy<Value = [Vec<usize>; 3]> {
    let axes = prop::collection::vec((1_usize..4, 0_usize..3), 0..5);
    (axes, 0_usize..3).prop_map(|(axes, dropped)| {
        let keep = |side: usize| axes.iter().map(|&(n, who)| if who == side { 1 } else { n }).collect();
        let (left, right): (Vec<usize>, Vec<usize>) = (keep(0), keep(1));
        let right: Vec<usize> = right.into_iter().skip(dropped).collect();
        let one = |shape: &[usize], axis: usize| {
            (axis + shape.len()).checked_sub(axes.len()).map_or(1, |at| shape[at])
        };
        let out = (0..axes.len()).map(|axis| one(&left, axis).max(one(&right, axis))).collect();
        [left, right, out]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn sides_broadcast_like_numpy([left, right, out] in shapes()) {
        check_pair(&left, &right, &out);
        check_pair(&right, &left, &out);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for (name, operation, _) in BINARY {
        for [left, right] in [
            [&[70, 1000][..], &[1000][..]],
            [&[70, 1000], &[70, 1]],
            [&[300, 300], &[300, 300]],
            [&[90_000], &[]],
        ] {
            let inputs = [numbers(left, 1, [-2.0, 2.0]), numbers(right, 2, [0.5, 2.0])];
            same_bits(name, &inputs, |tape, vars| operation(tape, &vars[0], &vars[1]).unwrap());
        }
    }
    for (name, operation, _, range) in UNARY {
        same_bits(name, &[numbers(&[77, 777], 1, range)], |tape, vars| operation(tape, &vars[0]));
    }
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let (x, y) = (numbers(&[9, 37], 1, [-2.0, 2.0]), numbers(&[37], 2, [0.5, 2.0]));
    let tape = Tape::inference();
    let whole = div(&tape, &Var::constant(x.clone()), &Var::constant(y.clone())).unwrap();
    for row in 0..9 {
        let alone = Tensor::new(&[1, 37], x.data()[row * 37..(row + 1) * 37].to_vec());
        let alone = div(&tape, &Var::constant(alone), &Var::constant(y.clone())).unwrap();
        assert_eq!(alone.value().data(), &whole.value().data()[row * 37..(row + 1) * 37]);
    }
}

#[test]
fn a_side_used_twice_gets_both_gradients() {
    let x = numbers(&[5], 1, [1.0, 2.0]);
    let (_, gradients) =
        run(std::slice::from_ref(&x), None, |tape, vars| mul(tape, &vars[0], &vars[0]).unwrap());
    let (_, expected) = run(&[x], None, |tape, vars| square(tape, &vars[0]));
    assert_eq!(gradients[0].data(), expected[0].data());
}

#[test]
fn ends_of_the_range() {
    let tape = Tape::inference();
    let at = |f: Unary, x: f32| f(&tape, &Var::constant(Tensor::scalar(x))).value().data()[0];
    assert_eq!([at(exp, 1000.0), at(exp, -1000.0)], [f32::INFINITY, 0.0]);
    assert!((at(exp, 88.5) / 2.723_088e38 - 1.0).abs() < 1e-5);
    assert_eq!([at(ln, 0.0), at(sqrt, 0.0), at(relu, -3.0)], [f32::NEG_INFINITY, 0.0, 0.0]);
    assert!((0.0..1e-38).contains(&at(sigmoid, -1000.0)));
    assert_eq!([at(sigmoid, 1000.0), at(tanh, 1000.0), at(tanh, -1000.0)], [1.0, 1.0, -1.0]);
    assert!(at(ln, -1.0).is_nan() && at(sqrt, -1.0).is_nan());
}

#[test]
fn empty_tensors_are_no_work() {
    for (name, operation, _) in BINARY {
        for [left, right, out] in
            [[&[0, 3][..], &[3][..], &[0, 3][..]], [&[2, 0], &[2, 1], &[2, 0]], [&[0], &[], &[0]]]
        {
            let inputs = [numbers(left, 1, [0.0, 1.0]), numbers(right, 2, [0.5, 1.0])];
            let (y, gradients) =
                run(&inputs, None, |tape, vars| operation(tape, &vars[0], &vars[1]).unwrap());
            assert_eq!(y.shape(), out, "{name}");
            assert!(gradients[1].data().iter().all(|&number| number == 0.0), "{name}");
        }
    }
    assert!(run(&[numbers(&[0, 4], 1, [0.0, 1.0])], None, |tape, vars| tanh(tape, &vars[0])).0.is_empty());
}

#[test]
fn shapes_that_do_not_broadcast_are_named() {
    let tape = Tape::inference();
    let [a, b] = [[2, 3], [2, 4]].map(|shape| Var::constant(Tensor::zeros(&shape)));
    let message = div(&tape, &a, &b).unwrap_err().to_string();
    assert_eq!(message, "div: right has shape [2, 4], expected one that broadcasts with [2, 3]");
    assert!(add(&tape, &Var::constant(Tensor::zeros(&[0])), &Var::constant(Tensor::zeros(&[2]))).is_err());
}
