//! Recurrent layers, shared weights, additive scores and masked weights against f64 references and finite differences.

use polyhead_tensor::gemm::{Matrix, Packed};
use polyhead_tensor::ops::additive::additive_scores;
use polyhead_tensor::ops::elementwise::tanh;
use polyhead_tensor::ops::masked_softmax::{Locality, masked_softmax};
use polyhead_tensor::ops::recurrent::{CellKind, Reading, RecurrentInput, RecurrentOptions, recurrent};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::{Dtype, Indices, Prepared, Tape, Tensor, Var};

use crate::gradient::{check, numbers, same_bits};

const READINGS: [Reading; 2] = [Reading::Forwards, Reading::Backwards];

/// A layer's sizes: batch, length and d.
type Sizes = [usize; 3];

/// Projected input, weight, bias and state.
fn inputs([batch, length, d]: Sizes, cell: CellKind, stream: u64) -> Vec<Tensor> {
    let gates = cell.n_gates() * d;
    let shapes: [&[usize]; 4] =
        [&[batch, length, gates], &[gates, d], &[gates], &[batch, cell.n_states() * d]];
    shapes.iter().zip(stream..).map(|(shape, stream)| numbers(shape, stream, [-1.0, 1.0])).collect()
}

/// Outputs and last state side by side, batch × (length · d + states).
fn layer(tape: &Tape, vars: &[Var], options: RecurrentOptions, lengths: Option<&Indices>) -> Var {
    let weight = SharedWeight::new(tape, &vars[1], Some(&vars[2])).unwrap();
    let input = RecurrentInput { projected: &vars[0], weight: &weight, state: Some(&vars[3]), lengths };
    let found = recurrent(tape, input, options).unwrap();
    let &[batch, length, d] = found.outputs.shape() else { panic!("three axes") };
    concat(tape, &[&found.outputs.reshaped(&[batch, length * d]), &found.last], 1).unwrap()
}

fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The same in f64, row by row and element by element.
fn reference(
    sides: &[Vec<f64>],
    [batch, length, d]: Sizes,
    options: RecurrentOptions,
    lengths: &[usize],
) -> Vec<f64> {
    let (cell, gates) = (options.cell, options.cell.n_gates() * d);
    let states = cell.n_states() * d;
    let mut all = Vec::new();
    for row in 0..batch {
        let mut state = sides[3][row * states..(row + 1) * states].to_vec();
        let mut outputs = vec![0.0; length * d];
        let mut positions: Vec<usize> = (0..lengths[row]).collect();
        if options.reading == Reading::Backwards {
            positions.reverse();
        }
        for t in positions {
            let x = &sides[0][(row * length + t) * gates..][..gates];
            let p: Vec<f64> = (0..gates)
                .map(|gate| (0..d).map(|j| sides[1][gate * d + j] * state[j]).sum::<f64>() + sides[2][gate])
                .collect();
            let mut next = state.clone();
            for j in 0..d {
                let at = |gate: usize| (x[gate * d + j], p[gate * d + j]);
                match cell {
                    CellKind::RnnTanh => next[j] = (at(0).0 + at(0).1).tanh(),
                    CellKind::RnnRelu => next[j] = (at(0).0 + at(0).1).max(0.0),
                    CellKind::Gru => {
                        let [r, z] = [0, 1].map(|gate| sigma(at(gate).0 + at(gate).1));
                        let n = (at(2).0 + r * at(2).1).tanh();
                        next[j] = (1.0 - z) * n + z * state[j];
                    }
                    CellKind::Lstm => {
                        let [i, f, o] = [0, 1, 3].map(|gate| sigma(at(gate).0 + at(gate).1));
                        let c = f * state[d + j] + i * (at(2).0 + at(2).1).tanh();
                        (next[j], next[d + j]) = (o * c.tanh(), c);
                    }
                }
            }
            state = next;
            outputs[t * d..(t + 1) * d].copy_from_slice(&state[..d]);
        }
        all.extend(outputs);
        all.extend(state);
    }
    all
}

#[test]
fn every_cell_equals_the_reference_in_both_directions_and_with_lengths() {
    let sizes = [3, 4, 5];
    for cell in CellKind::ALL {
        for reading in READINGS {
            for lengths in [vec![4, 4, 4], vec![2, 4, 0]] {
                let options = RecurrentOptions { cell, reading };
                let indices: Indices = lengths.iter().map(|&length| length as u32).collect();
                check(
                    &format!("{cell:?} {reading:?} {lengths:?}"),
                    &inputs(sizes, cell, 1),
                    |tape, vars| layer(tape, vars, options, Some(&indices)),
                    |sides| reference(sides, sizes, options, &lengths),
                );
            }
        }
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch_nor_on_padding() {
    // Large enough for several threads.
    let (batch, length, d) = (7, 5, 70);
    for cell in CellKind::ALL {
        for reading in READINGS {
            let options = RecurrentOptions { cell, reading };
            let lengths: Indices = [5, 1, 3, 5, 0, 2, 4].into();
            let all = inputs([batch, length, d], cell, 3);
            same_bits(&format!("{cell:?}"), &all, |tape, vars| layer(tape, vars, options, Some(&lengths)));
            let together = layer(
                &Tape::inference(),
                &all.iter().cloned().map(Var::constant).collect::<Vec<_>>(),
                options,
                Some(&lengths),
            );
            let width = together.shape()[1];
            for row in 0..batch {
                let own = lengths.host()[row] as usize;
                if own == 0 {
                    continue;
                }
                let part = |tensor: &Tensor, count: usize, shape: &[usize]| {
                    let rest = tensor.len() / batch;
                    Var::constant(Tensor::new(shape, tensor.data()[row * rest..][..count].to_vec()))
                };
                let gates = cell.n_gates() * d;
                let alone = [
                    part(&all[0], own * gates, &[1, own, gates]),
                    Var::constant(all[1].clone()),
                    Var::constant(all[2].clone()),
                    part(&all[3], cell.n_states() * d, &[1, cell.n_states() * d]),
                ];
                let alone = layer(&Tape::inference(), &alone, options, None);
                let found = &together.value().data()[row * width..(row + 1) * width];
                assert_eq!(&found[..own * d], &alone.value().data()[..own * d], "{cell:?} {reading:?} {row}");
                assert!(found[own * d..length * d].iter().all(|&output| output == 0.0));
                assert_eq!(
                    &found[length * d..],
                    &alone.value().data()[own * d..],
                    "{cell:?} {reading:?} {row}"
                );
            }
        }
    }
}

/// The steps of a decoder: a layer over one position at a time, with one shared weight.
#[test]
fn steps_equal_the_layer_in_value_and_gradient() {
    let sizes = [3, 4, 5];
    for cell in CellKind::ALL {
        let options = RecurrentOptions { cell, ..Default::default() };
        check(
            &format!("steps of {cell:?}"),
            &inputs(sizes, cell, 5),
            |tape, vars| {
                let weight = SharedWeight::new(tape, &vars[1], Some(&vars[2])).unwrap();
                let (mut state, mut outputs) = (vars[3].clone(), Vec::new());
                for t in 0..sizes[1] {
                    let projected = slice(tape, &vars[0], 1, t..t + 1).unwrap();
                    let input = RecurrentInput {
                        projected: &projected,
                        weight: &weight,
                        state: Some(&state),
                        lengths: None,
                    };
                    let found = recurrent(tape, input, options).unwrap();
                    outputs.push(found.outputs.reshaped(&[sizes[0], sizes[2]]));
                    state = found.last;
                }
                outputs.push(state);
                concat(tape, &outputs.iter().collect::<Vec<_>>(), 1).unwrap()
            },
            |sides| reference(sides, sizes, options, &[sizes[1]; 3]),
        );
    }
}

#[test]
fn prepared_weights_give_the_same_bits_and_int8_is_near() {
    let (cell, tape) = (CellKind::Lstm, Tape::inference());
    let all = inputs([3, 4, 24], cell, 9);
    let vars: Vec<Var> = all.iter().cloned().map(Var::constant).collect();
    let plain = layer(&tape, &vars, RecurrentOptions::default(), None);
    for dtype in [Dtype::F32, Dtype::Int8] {
        let prepared = Prepared::new(&all[1], dtype);
        let weight = SharedWeight::prepared(&prepared, Some(&vars[2])).unwrap();
        let input =
            RecurrentInput { projected: &vars[0], weight: &weight, state: Some(&vars[3]), lengths: None };
        let found = recurrent(&tape, input, RecurrentOptions::default()).unwrap();
        for (row, outputs) in found.outputs.value().data().chunks_exact(4 * 24).enumerate() {
            let expected = &plain.value().data()[row * plain.shape()[1]..][..4 * 24];
            match dtype {
                Dtype::F32 => assert_eq!(outputs, expected),
                _ => assert!(outputs.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.05), "int8"),
            }
        }
    }
    assert_eq!(Packed::new(Matrix::new(all[1].data(), 96, 24).t()).shape(), [24, 96]);
}

#[test]
fn nan_and_extreme_gates_are_defined() {
    for cell in CellKind::ALL {
        let mut all = inputs([2, 3, 4], cell, 13);
        all[0].data_mut()[0] = f32::NAN;
        let second = all[0].len() / 2;
        all[0].data_mut()[second..].fill(1e30);
        let vars: Vec<Var> = all.iter().cloned().map(Var::constant).collect();
        let found = layer(&Tape::inference(), &vars, RecurrentOptions { cell, ..Default::default() }, None);
        let (first, second) = found.value().data().split_at(found.value().len() / 2);
        assert!(first.iter().any(|number| number.is_nan()), "{cell:?}: NaN stays visible");
        assert!(second.iter().all(|number| !number.is_nan()), "{cell:?}: {second:?}");
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let all: Vec<Var> = inputs([2, 3, 4], CellKind::Lstm, 1).into_iter().map(Var::constant).collect();
    let tape = Tape::inference();
    let weight = SharedWeight::new(&tape, &all[1], Some(&all[2])).unwrap();
    let input = RecurrentInput { projected: &all[0], weight: &weight, state: Some(&all[3]), lengths: None };
    let refused = |input, cell| {
        recurrent(&tape, input, RecurrentOptions { cell, ..Default::default() }).unwrap_err().to_string()
    };
    assert!(refused(input, CellKind::Gru).contains("weight has shape [16, 4], expected [12, 4]"));
    let narrow = Var::constant(Tensor::zeros(&[2, 4]));
    let error = refused(RecurrentInput { state: Some(&narrow), ..input }, CellKind::Lstm);
    assert!(error.contains("state has shape [2, 4], expected [2, 8]"), "{error}");
    let long: Indices = [3, 4].into();
    let error = refused(RecurrentInput { lengths: Some(&long), ..input }, CellKind::Lstm);
    assert!(error.contains("expected lengths of at most 3"), "{error}");
    let no_positions = Var::constant(Tensor::zeros(&[2, 0, 16]));
    let found =
        recurrent(&tape, RecurrentInput { projected: &no_positions, ..input }, RecurrentOptions::default());
    assert_eq!(found.unwrap().last.value().data(), all[3].value().data());
}

#[test]
fn a_shared_weight_has_the_gradients_of_all_its_steps() {
    let inputs =
        [numbers(&[2, 3], 1, [-1.0, 1.0]), numbers(&[3, 3], 2, [-1.0, 1.0]), numbers(&[3], 3, [-1.0, 1.0])];
    check(
        "shared weight",
        &inputs,
        |tape, vars| {
            let layer = SharedWeight::new(tape, &vars[1], Some(&vars[2])).unwrap();
            let hidden = tanh(tape, &layer.linear(tape, &vars[0]).unwrap());
            layer.linear(tape, &hidden).unwrap()
        },
        |sides| {
            let product = |x: &[f64]| -> Vec<f64> {
                let row = |x: &[f64]| -> Vec<f64> {
                    (0..3)
                        .map(|i| (0..3).map(|j| sides[1][i * 3 + j] * x[j]).sum::<f64>() + sides[2][i])
                        .collect()
                };
                x.chunks(3).flat_map(row).collect()
            };
            product(&product(&sides[0]).iter().map(|x| x.tanh()).collect::<Vec<_>>())
        },
    );
}

#[test]
fn additive_scores_equal_the_reference() {
    let [batch, q_len, k_len, d] = [2, 3, 4, 19];
    let inputs = [
        numbers(&[batch, q_len, d], 1, [-2.0, 2.0]),
        numbers(&[batch, k_len, d], 2, [-2.0, 2.0]),
        numbers(&[d], 3, [-1.0, 1.0]),
    ];
    let operation = |tape: &Tape, vars: &[Var]| additive_scores(tape, &vars[0], &vars[1], &vars[2]).unwrap();
    check("additive", &inputs, operation, |sides| {
        let mut scores = Vec::new();
        for pair in 0..batch * q_len * k_len {
            let (q, k) = (pair / k_len * d, (pair / k_len / q_len * k_len + pair % k_len) * d);
            scores.push((0..d).map(|j| sides[2][j] * (sides[0][q + j] + sides[1][k + j]).tanh()).sum());
        }
        scores
    });
    same_bits("additive", &inputs, operation);
    // Saturated components are ±1, and NaN stays visible.
    let wide = [100.0, -100.0, 90.0, f32::NAN];
    let query = Var::constant(Tensor::new(&[1, 4, 1], wide.to_vec()));
    let key = Var::constant(Tensor::new(&[1, 1, 1], vec![80.0]));
    let vector = Var::constant(Tensor::new(&[1], vec![1.0]));
    let scores = additive_scores(&Tape::inference(), &query, &key, &vector).unwrap();
    assert_eq!((scores.value().data()[0], scores.value().data()[2]), (1.0, 1.0));
    assert!(scores.value().data()[3].is_nan());
    assert!(additive_scores(&Tape::inference(), &query, &vector, &vector).is_err());
}

/// Softmax over the keys that a reference window allows.
fn reference_weights(scores: &[f64], k_len: usize, score: impl Fn(usize, usize) -> Option<f64>) -> Vec<f64> {
    let mut all = Vec::new();
    for row in 0..scores.len() / k_len {
        let powers: Vec<f64> = (0..k_len)
            .map(|s| score(row, s).map_or(0.0, |more| (scores[row * k_len + s] + more).exp()))
            .collect();
        let total: f64 = powers.iter().sum();
        all.extend(powers.iter().map(|power| if total == 0.0 { 0.0 } else { power / total }));
    }
    all
}

#[test]
fn masked_weights_equal_the_reference() {
    let ([batch, q_len, k_len], lengths) = ([3, 4, 9], [9_usize, 4, 0]);
    let scores = numbers(&[batch, q_len, k_len], 1, [-2.0, 2.0]);
    let indices: Indices = lengths.iter().map(|&length| length as u32).collect();
    let run = |locality| {
        let indices = indices.clone();
        move |tape: &Tape, vars: &[Var]| masked_softmax(tape, &vars[0], &indices, locality).unwrap()
    };
    check("global", std::slice::from_ref(&scores), run(Locality::Global), |sides| {
        reference_weights(&sides[0], k_len, |row, s| (s < lengths[row / q_len]).then_some(0.0))
    });
    let (distance, start) = (1, 2);
    check("local-m", std::slice::from_ref(&scores), run(Locality::Monotonic { distance, start }), |sides| {
        reference_weights(&sides[0], k_len, |row, s| {
            let length = lengths[row / q_len];
            let p = (row % q_len + start).min(length.saturating_sub(1));
            (s < length && s.abs_diff(p) <= distance).then_some(0.0)
        })
    });
    let shares = numbers(&[batch, q_len], 4, [0.05, 0.95]);
    check(
        "local-p",
        &[scores.clone(), shares],
        |tape, vars| {
            let locality = Locality::Predictive { distance: 2, centre: &vars[1] };
            masked_softmax(tape, &vars[0], &indices, locality).unwrap()
        },
        |sides| {
            let length = |row: usize| lengths[row / q_len];
            let away = |row: usize, s: usize| s as f64 - length(row) as f64 * sides[1][row];
            let inside = |row, s| (s < length(row) && away(row, s).abs() <= 2.0).then_some(0.0);
            let mut weights = reference_weights(&sides[0], k_len, inside);
            for (at, weight) in weights.iter_mut().enumerate() {
                *weight *= (-away(at / k_len, at % k_len).powi(2) / 2.0).exp();
            }
            weights
        },
    );
    same_bits("global", std::slice::from_ref(&scores), run(Locality::Global));
    let none = Locality::Monotonic { distance: 0, start: 0 };
    assert!(masked_softmax(&Tape::inference(), &Var::constant(scores), &indices, none).is_err());
}
