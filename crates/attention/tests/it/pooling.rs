//! Pooling: padding changes nothing, and gradients reach the pooled positions only.

use polyhead_attention::layers::Pooling;
use polyhead_attention::{Builder, Capture, Pass};
use polyhead_random::Random;
use polyhead_tensor::ops::elementwise::mul;
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{Init, Parameters, Tape, Tensor, Var};

const LENGTHS: [usize; 3] = [4, 1, 3];
const WIDTH: usize = 6;

/// Random states, 3 × `length` × 6; padding has values of the same size.
fn states(length: usize) -> Tensor {
    let random = Random::new(4);
    let value = |row: usize, position: usize, at: usize| {
        let padding = if position < LENGTHS[row] { 0 } else { 1000 * length as u64 };
        random.uniform((row * 100 + position * 10 + at) as u64 + padding) as f32 - 0.5
    };
    let data = (0..3)
        .flat_map(|row| (0..length).flat_map(move |position| (0..WIDTH).map(move |at| (row, position, at))));
    Tensor::new(&[3, length, WIDTH], data.map(|(row, position, at)| value(row, position, at)).collect())
}

#[test]
fn padding_changes_nothing_and_the_mean_is_correct() {
    let lengths = LENGTHS.map(|length| length as u32).to_vec();
    let (tape, capture, parameters) = (Tape::inference(), Capture::off(), Parameters::default());
    let pass = Pass::new(&tape, &parameters, &capture);
    for pooling in [Pooling::First, Pooling::Mean] {
        let [short, long] = [4, 7].map(|length| {
            let x = Var::constant(states(length));
            pooling.forward(&pass, &x, &lengths.clone().into()).unwrap().value().clone()
        });
        assert_eq!(short.shape(), [3, WIDTH]);
        assert_eq!(short.data(), long.data(), "{pooling:?}");
        let all = states(4);
        for (row, found) in short.data().chunks_exact(WIDTH).enumerate() {
            for (at, found) in found.iter().enumerate() {
                let of = |position: usize| f64::from(all.data()[(row * 4 + position) * WIDTH + at]);
                let count = if pooling == Pooling::First { 1 } else { LENGTHS[row] };
                let mean = (0..count).map(of).sum::<f64>() / count as f64;
                assert!((f64::from(*found) - mean).abs() < 1e-6, "{pooling:?} {row} {at}: {found}, {mean}");
            }
        }
    }
}

#[test]
fn gradients_reach_the_pooled_positions_only() {
    let lengths = LENGTHS.map(|length| length as u32).to_vec();
    for pooling in [Pooling::First, Pooling::Mean] {
        let mut parameters = Parameters::default();
        let id = Builder::new(&mut parameters).declare("x", &[3, 4, WIDTH], Init::Zeros);
        parameters.set(id, states(4));
        let (tape, capture) = (Tape::training(1, 1), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let pooled = pooling.forward(&pass, &pass.parameter(id), &lengths.clone().into()).unwrap();
        let weights: Vec<f32> = (0..3 * WIDTH).map(|at| at as f32 + 1.0).collect();
        let weighted =
            mul(&tape, &pooled, &Var::constant(Tensor::new(&[3, WIDTH], weights.clone()))).unwrap();
        let total = sum(&tape, &weighted, Over::All).unwrap();
        let gradients = tape.backward(&total);
        let (_, gradient) = gradients.parameters().next().unwrap();
        for (index, found) in gradient.data().iter().enumerate() {
            let (row, position, at) = (index / (4 * WIDTH), index / WIDTH % 4, index % WIDTH);
            let weight = weights[row * WIDTH + at];
            let expected = match pooling {
                Pooling::First if position == 0 => weight,
                Pooling::Mean if position < LENGTHS[row] => weight / LENGTHS[row] as f32,
                _ => 0.0,
            };
            assert!(
                (found - expected).abs() < 1e-5,
                "{pooling:?} {row} {position} {at}: {found}, {expected}"
            );
        }
    }
}
