//! Operations that move values: round trips, gradients, bad shapes.

use polyhead_tensor::ops::shape::{concat, index_select, reshape, slice, split, transpose};
use polyhead_tensor::{Tape, Tensor, Var};
use proptest::prelude::*;

use crate::gradient::{check, golden, numbers, run, same_bits};

const IDS: [u32; 6] = [4, 0, 4, 2, 4, 0];

#[test]
fn equal_to_pytorch() {
    golden(&["concat", "slice", "transpose", "index_select"], |name, tape, vars| {
        let words: Vec<&str> = name.split(' ').collect();
        let axis = |word: usize| words[word].parse().unwrap();
        match words[0] {
            "concat" => concat(tape, &vars.iter().collect::<Vec<_>>(), axis(1)).unwrap(),
            "slice" => slice(tape, &vars[0], axis(1), 1..3).unwrap(),
            "transpose" => transpose(tape, &vars[0], [axis(1), axis(2)]).unwrap(),
            _ => index_select(tape, &vars[0], &IDS).unwrap(),
        }
    });
}

/// A shape, one of its axes, and sizes along that axis.
fn cuts() -> impl Strategy<Value = (Vec<usize>, usize, Vec<usize>)> {
    (
        prop::collection::vec(1_usize..5, 1..5),
        any::<prop::sample::Index>(),
        prop::collection::vec(0_usize..4, 1..5),
    )
        .prop_map(|(mut shape, axis, sizes)| {
            let axis = axis.index(shape.len());
            shape[axis] = sizes.iter().sum();
            (shape, axis, sizes)
        })
}

/// Index of a multi-dimensional index in a row-major array.
fn at(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |at, (size, index)| at * size + index)
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let count = shape.iter().product();
    let unravel = |mut number: usize| {
        let mut index: Vec<usize> = shape
            .iter()
            .rev()
            .map(|size| {
                let here = number % size;
                number /= size;
                here
            })
            .collect();
        index.reverse();
        index
    };
    (0..count).map(unravel).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn joined_pieces_are_the_whole((shape, axis, sizes) in cuts()) {
        let x = numbers(&shape, 1, [-1.0, 1.0]);
        let pass = |tape: &Tape, vars: &[Var]| {
            let pieces = split(tape, &vars[0], axis, &sizes).unwrap();
            concat(tape, &pieces.iter().collect::<Vec<_>>(), axis).unwrap()
        };
        let (y, gradients) = run(std::slice::from_ref(&x), None, pass);
        prop_assert_eq!(y.shape(), x.shape());
        prop_assert_eq!(y.data(), x.data());
        let (_, expected) = run(&[x], None, |_, vars| vars[0].clone());
        prop_assert_eq!(gradients[0].data(), expected[0].data());
    }

    #[test]
    fn a_slice_holds_the_numbers_of_its_range((shape, axis, sizes) in cuts()) {
        let end: usize = sizes.iter().sum();
        let (start, end) = (sizes[0], end);
        let x = numbers(&shape, 1, [-1.0, 1.0]);
        let mut cut = shape.clone();
        cut[axis] = end - start;
        check("slice", &[x], |tape, vars| slice(tape, &vars[0], axis, start..end).unwrap(), |inputs| {
            indices(&cut).into_iter().map(|mut index| {
                index[axis] += start;
                inputs[0][at(&shape, &index)]
            }).collect()
        });
    }

    #[test]
    fn transposing_moves_every_value_and_twice_is_the_identity(
        shape in prop::collection::vec(1_usize..5, 1..6),
        axes in any::<[prop::sample::Index; 2]>(),
    ) {
        let axes = axes.map(|axis| axis.index(shape.len()));
        let x = numbers(&shape, 1, [-1.0, 1.0]);
        let mut turned = shape.clone();
        turned.swap(axes[0], axes[1]);
        check("transpose", std::slice::from_ref(&x), |tape, vars| transpose(tape, &vars[0], axes).unwrap(), |inputs| {
            indices(&turned).into_iter().map(|mut index| {
                index.swap(axes[0], axes[1]);
                inputs[0][at(&shape, &index)]
            }).collect()
        });
        let tape = Tape::inference();
        let once = transpose(&tape, &Var::constant(x.clone()), axes).unwrap();
        prop_assert_eq!(once.shape(), &turned[..]);
        let back = transpose(&tape, &once, axes).unwrap();
        prop_assert_eq!(back.value().data(), x.data());
    }
}

#[test]
fn a_row_selected_twice_gets_both_gradients() {
    let x = Tensor::new(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let weights = Tensor::new(&[3, 2], vec![1.0, 10.0, 2.0, 20.0, 4.0, 40.0]);
    let (y, gradients) =
        run(&[x], Some(&weights), |tape, vars| index_select(tape, &vars[0], &[2, 0, 2]).unwrap());
    assert_eq!(y.data(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    assert_eq!(gradients[0].data(), [2.0, 20.0, 0.0, 0.0, 5.0, 50.0]);
}

#[test]
fn gradients_of_a_row_are_added_in_the_order_of_selection() {
    let weights = numbers(&[40, 1], 1, [-1.0, 1.0]);
    let (_, gradients) = run(&[Tensor::zeros(&[2, 1])], Some(&weights), |tape, vars| {
        index_select(tape, &vars[0], &[1; 40]).unwrap()
    });
    let forwards = weights.data().iter().fold(0.0, |sum, number| sum + number);
    let backwards = weights.data().iter().rev().fold(0.0, |sum, number| sum + number);
    assert_ne!(forwards, backwards, "numbers whose order matters");
    assert_eq!(gradients[0].data(), [0.0, forwards]);
}

#[test]
fn pieces_used_apart_share_one_gradient() {
    let x = numbers(&[4, 6], 1, [-1.0, 1.0]);
    let operation = |tape: &Tape, vars: &[Var]| {
        let [a, b] = [0..4, 2..6].map(|range| slice(tape, &vars[0], 1, range).unwrap());
        concat(tape, &[&b, &a, &vars[0]], 1).unwrap()
    };
    check("overlapping slices", &[x], operation, |inputs| {
        let columns = [2, 3, 4, 5, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5];
        (0..4).flat_map(|row| columns.map(|column| inputs[0][row * 6 + column])).collect()
    });
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let big = [numbers(&[300, 7, 60], 1, [-1.0, 1.0])];
    let ids: Vec<u32> = (0..5000).map(|index| index * 7919 % 300).collect();
    same_bits("index_select", &big, |tape, vars| index_select(tape, &vars[0], &ids).unwrap());
    same_bits("transpose", &big, |tape, vars| transpose(tape, &vars[0], [0, 2]).unwrap());
    same_bits("slice", &big, |tape, vars| slice(tape, &vars[0], 2, 5..59).unwrap());
    same_bits("concat", &big, |tape, vars| concat(tape, &[&vars[0], &vars[0]], 1).unwrap());
}

#[test]
fn bad_shapes_are_named_and_empty_ones_are_no_work() {
    let tape = Tape::inference();
    let of = |shape: &[usize]| Var::constant(Tensor::zeros(shape));
    let message = |error: polyhead_tensor::Error| error.to_string();
    assert_eq!(
        message(concat(&tape, &[&of(&[2, 3]), &of(&[3, 2])], 1).unwrap_err()),
        "concat: part has shape [3, 2], expected [2, 3] except for axis 1"
    );
    assert!(concat(&tape, &[], 0).is_err());
    assert!(concat(&tape, &[&of(&[2])], 1).is_err());
    assert!(concat(&tape, &[&of(&[2]), &of(&[2, 1])], 0).is_err());
    assert_eq!(
        message(split(&tape, &of(&[2, 3]), 1, &[1, 1]).unwrap_err()),
        "split: x has shape [2, 3], expected an axis 1 of size the sum of [1, 1]"
    );
    assert!(split(&tape, &of(&[2, 3]), 1, &[usize::MAX, 4]).is_err());
    assert_eq!(
        message(slice(&tape, &of(&[2, 3]), 1, 2..4).unwrap_err()),
        "slice: x has shape [2, 3], expected an axis 1 that contains 2..4"
    );
    let (start, end) = (2, 1);
    assert!(slice(&tape, &of(&[2, 3]), 1, start..end).is_err());
    assert!(slice(&tape, &of(&[]), 0, 0..0).is_err());
    assert!(transpose(&tape, &of(&[2, 3]), [0, 2]).is_err());
    assert_eq!(
        message(reshape(&of(&[2, 3]), &[4, 2]).unwrap_err()),
        "reshape: x has shape [2, 3], expected as many values as [4, 2]"
    );
    assert!(reshape(&of(&[2, 3]), &[usize::MAX, 2]).is_err());
    assert_eq!(reshape(&of(&[2, 3]), &[6]).unwrap().shape(), [6]);
    assert_eq!(
        message(index_select(&tape, &of(&[2, 3]), &[0, 2]).unwrap_err()),
        "index_select: id 2 at position 1, expected less than 2"
    );
    for (shape, ids) in [(&[3, 2][..], &[][..]), (&[3, 0], &[1, 1]), (&[0, 2], &[])] {
        let inputs = [Tensor::zeros(shape)];
        let (y, gradients) = run(&inputs, None, |tape, vars| index_select(tape, &vars[0], ids).unwrap());
        assert!(y.is_empty() && gradients[0].data().iter().all(|&number| number == 0.0));
    }
    run(&[Tensor::zeros(&[2, 0])], None, |tape, vars| transpose(tape, &vars[0], [0, 1]).unwrap());
    run(&[Tensor::zeros(&[2, 3])], None, |tape, vars| slice(tape, &vars[0], 1, 3..3).unwrap());
    run(&[Tensor::zeros(&[0, 3])], None, |tape, vars| slice(tape, &vars[0], 1, 1..3).unwrap());
}
