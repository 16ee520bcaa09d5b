//! Batched products: values, gradients, layouts, bits, bad shapes.

use polyhead_tensor::ops::matmul::{Layout, MatmulOptions, matmul};
use polyhead_tensor::{Tape, Tensor, Var};
use proptest::prelude::*;

use crate::gradient::{check, golden, numbers, run, same_bits};

const LAYOUTS: [Layout; 2] = [Layout::Plain, Layout::Transposed];

fn options() -> impl Iterator<Item = MatmulOptions> {
    LAYOUTS.into_iter().flat_map(|left| LAYOUTS.map(|right| MatmulOptions { left, right }))
}

/// `leading × rows × cols` as it is stored.
fn stored(leading: &[usize], [rows, cols]: [usize; 2], layout: Layout) -> Vec<usize> {
    let last = if layout == Layout::Plain { [rows, cols] } else { [cols, rows] };
    [leading, &last].concat()
}

fn check_all(leading: &[usize], right_leading: &[usize], [m, k, n]: [usize; 3]) {
    for options in options() {
        let inputs = [
            numbers(&stored(leading, [m, k], options.left), 1, [-1.0, 1.0]),
            numbers(&stored(right_leading, [k, n], options.right), 2, [-1.0, 1.0]),
        ];
        let batch: usize = leading.iter().product();
        let right_stride = if right_leading.is_empty() { 0 } else { k * n };
        check(
            &format!("{leading:?} {right_leading:?} {m}×{k}·{k}×{n} {options:?}"),
            &inputs,
            |tape, vars| matmul(tape, &vars[0], &vars[1], options).unwrap(),
            |sides| {
                let mut out = Vec::new();
                for (index, row, column) in
                    (0..batch).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| (b, i, j))))
                {
                    let a = |i: usize, l: usize| {
                        if options.left == Layout::Plain { i * k + l } else { l * m + i }
                    };
                    let b = |l: usize, j: usize| {
                        if options.right == Layout::Plain { l * n + j } else { j * k + l }
                    };
                    let product = |l| {
                        sides[0][index * m * k + a(row, l)] * sides[1][index * right_stride + b(l, column)]
                    };
                    out.push((0..k).map(product).sum());
                }
                out
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn equal_to_the_reference(
        leading in prop::collection::vec(1_usize..4, 0..3), m in 1_usize..5, k in 1_usize..6, n in 1_usize..5,
    ) {
        check_all(&leading, &leading, [m, k, n]);
        check_all(&leading, &[], [m, k, n]);
    }
}

#[test]
fn equal_to_pytorch() {
    golden(&["matmul"], |name, tape, vars| {
        let layout = |side: &str| {
            let turned = name.contains("both transposed") || name.contains(&format!("{side} transposed"));
            if turned { Layout::Transposed } else { Layout::Plain }
        };
        let options = MatmulOptions { left: layout("left"), right: layout("right") };
        matmul(tape, &vars[0], &vars[1], options).unwrap()
    });
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for options in options() {
        for (leading, right) in [(&[2][..], &[2][..]), (&[9], &[9]), (&[5], &[]), (&[], &[])] {
            let inputs = [
                numbers(&stored(leading, [70, 90], options.left), 1, [-1.0, 1.0]),
                numbers(&stored(right, [90, 110], options.right), 2, [-1.0, 1.0]),
            ];
            same_bits("matmul", &inputs, |tape, vars| matmul(tape, &vars[0], &vars[1], options).unwrap());
        }
    }
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let tape = Tape::inference();
    let [a, b] = [numbers(&[3, 4, 50], 1, [-1.0, 1.0]), numbers(&[3, 50, 20], 2, [-1.0, 1.0])];
    let product = |a: Tensor, b: Tensor| {
        let y = matmul(&tape, &Var::constant(a), &Var::constant(b), MatmulOptions::default()).unwrap();
        y.value().clone()
    };
    let whole = product(a.clone(), b.clone());
    for row in 0..12 {
        let left = Tensor::new(&[1, 50], a.data()[row * 50..(row + 1) * 50].to_vec());
        let right = Tensor::new(&[50, 20], b.data()[row / 4 * 1000..(row / 4 + 1) * 1000].to_vec());
        assert_eq!(product(left, right).data(), &whole.data()[row * 20..(row + 1) * 20]);
    }
}

#[test]
fn empty_sides_give_zeros() {
    for options in options() {
        for ([m, k, n], leading) in
            [([2, 0, 3], &[2][..]), ([0, 4, 3], &[2]), ([2, 4, 0], &[2]), ([2, 4, 3], &[0])]
        {
            for right in [leading, &[]] {
                let inputs = [
                    numbers(&stored(leading, [m, k], options.left), 1, [-1.0, 1.0]),
                    numbers(&stored(right, [k, n], options.right), 2, [-1.0, 1.0]),
                ];
                let (y, gradients) =
                    run(&inputs, None, |tape, vars| matmul(tape, &vars[0], &vars[1], options).unwrap());
                assert_eq!(y.shape(), [leading, &[m, n]].concat());
                let zeros = y.data().iter().chain(gradients[0].data()).chain(gradients[1].data());
                assert!(zeros.copied().all(|number| number == 0.0), "{m}×{k}·{k}×{n}");
            }
        }
    }
}

#[test]
fn bad_shapes_are_named() {
    let tape = Tape::inference();
    let product = |a: &[usize], b: &[usize]| {
        let [a, b] = [a, b].map(|shape| Var::constant(Tensor::zeros(shape)));
        matmul(&tape, &a, &b, MatmulOptions::default()).unwrap_err().to_string()
    };
    assert_eq!(
        product(&[2, 3, 4], &[2, 5, 6]),
        "matmul: right has shape [2, 5, 6], expected [2, 4, 6] or [4, 6] for a left side of [2, 3, 4]"
    );
    assert_eq!(product(&[4], &[4, 6]), "matmul: left has shape [4], expected at least two axes");
    assert_eq!(product(&[3, 4], &[4]), "matmul: right has shape [4], expected at least two axes");
    assert!(product(&[3, 4], &[2, 4, 5]).contains("right has shape [2, 4, 5]"));
    assert!(product(&[2, 3, 4], &[3, 4, 5]).contains("left side of [2, 3, 4]"));
}
