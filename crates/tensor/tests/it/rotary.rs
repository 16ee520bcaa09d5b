//! Rotary positions: values, gradients, dependence on distances only, bad shapes.

use polyhead_tensor::ops::rotary::{Pairing, RotaryOptions, RotaryTable, rotary};
use polyhead_tensor::ops::shape::slice;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{check, golden, numbers, run, same_bits};

const PAIRINGS: [Pairing; 2] = [Pairing::Interleaved, Pairing::Halves];

fn table(d_head: usize, max_len: usize, pairing: Pairing) -> RotaryTable {
    RotaryTable::new(d_head, max_len, RotaryOptions { pairing, ..RotaryOptions::default() }).unwrap()
}

#[test]
fn equal_to_the_reference() {
    let [batch, length, n_heads, d_head] = [2, 4, 3, 10];
    for (pairing, offset) in [(PAIRINGS[0], 0), (PAIRINGS[0], 5), (PAIRINGS[1], 0), (PAIRINGS[1], 5)] {
        let table = table(d_head, 9, pairing);
        let inputs = [numbers(&[batch, length, n_heads, d_head], 1, [-1.0, 1.0])];
        check(
            "rotary",
            &inputs,
            |tape, vars| rotary(tape, &vars[0], &table, offset).unwrap(),
            |inputs| {
                let mut out = inputs[0].clone();
                for (row, out) in out.chunks_mut(d_head).enumerate() {
                    let position = (offset + row / n_heads % length) as f64;
                    for pair in 0..d_head / 2 {
                        let angle = position * 10_000_f64.powf(-2.0 * pair as f64 / d_head as f64);
                        let [i, j] = match pairing {
                            Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                            Pairing::Halves => [pair, pair + d_head / 2],
                        };
                        let (a, b) = (out[i], out[j]);
                        (out[i], out[j]) =
                            (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos());
                    }
                }
                out
            },
        );
    }
}

#[test]
fn equal_to_pytorch() {
    golden(&["rotary"], |name, tape, vars| {
        let pairing = if name.ends_with("halves") { Pairing::Halves } else { Pairing::Interleaved };
        rotary(tape, &vars[0], &table(6, 11, pairing), 7).unwrap()
    });
}

#[test]
fn products_depend_on_the_distance_alone() {
    let tape = Tape::inference();
    let [q, k] = [1, 2].map(|stream| Var::constant(numbers(&[1, 1, 1, 64], stream, [-1.0, 1.0])));
    for pairing in PAIRINGS {
        let table = table(64, 5000, pairing);
        let product = |at_q: usize, at_k: usize| -> f64 {
            let [q, k] = [(&q, at_q), (&k, at_k)].map(|(x, at)| rotary(&tape, x, &table, at).unwrap());
            q.value().data().iter().zip(k.value().data()).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum()
        };
        for (near, far) in [([3, 0], [4003, 4000]), ([0, 100], [4800, 4900])] {
            // Each product has 64 terms up to 2 with errors of a few 6e-8.
            assert!((product(near[0], near[1]) - product(far[0], far[1])).abs() < 1e-5);
        }
    }
}

#[test]
fn a_sequence_step_by_step_equals_the_sequence_at_once() {
    let tape = Tape::inference();
    let x = Var::constant(numbers(&[2, 6, 3, 8], 1, [-1.0, 1.0]));
    for pairing in PAIRINGS {
        let table = table(8, 20, pairing);
        let whole = rotary(&tape, &x, &table, 4).unwrap();
        for step in 0..6 {
            let alone =
                rotary(&tape, &slice(&tape, &x, 1, step..step + 1).unwrap(), &table, 4 + step).unwrap();
            let part = slice(&tape, &whole, 1, step..step + 1).unwrap();
            assert_eq!(alone.value().data(), part.value().data());
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for pairing in PAIRINGS {
        let table = table(32, 100, pairing);
        let inputs = [numbers(&[5, 100, 4, 32], 1, [-1.0, 1.0])];
        same_bits("rotary", &inputs, |tape, vars| rotary(tape, &vars[0], &table, 0).unwrap());
    }
}

#[test]
fn bad_shapes_are_named_and_empty_ones_are_no_work() {
    let tape = Tape::inference();
    let table = table(4, 6, Pairing::Halves);
    let message = |shape: &[usize], offset| {
        rotary(&tape, &Var::constant(Tensor::zeros(shape)), &table, offset).unwrap_err().to_string()
    };
    assert_eq!(
        message(&[2, 3, 4], 0),
        "rotary: x has shape [2, 3, 4], expected batch × length × n_heads × d_head"
    );
    assert_eq!(
        message(&[1, 3, 2, 6], 0),
        "rotary: x has shape [1, 3, 2, 6], expected heads of 4, as in the table"
    );
    assert_eq!(
        message(&[1, 3, 2, 4], 4),
        "rotary: x has shape [1, 3, 2, 4], expected at most 6 positions, as in the table, from 4 on"
    );
    assert!(message(&[1, 3, 2, 4], usize::MAX).contains("positions"));
    for d_head in [0, 5] {
        let error = RotaryTable::new(d_head, 6, RotaryOptions::default()).unwrap_err().to_string();
        assert_eq!(error, format!("rotary: d_head is {d_head}, expected an even number above 0"));
    }
    for base in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(RotaryTable::new(4, 6, RotaryOptions { base, ..RotaryOptions::default() }).is_err());
    }
    for shape in [[0, 3, 2, 4], [1, 0, 2, 4], [1, 3, 0, 4]] {
        let (y, _) =
            run(&[Tensor::zeros(&shape)], None, |tape, vars| rotary(tape, &vars[0], &table, 0).unwrap());
        assert_eq!(y.shape(), shape);
    }
}
