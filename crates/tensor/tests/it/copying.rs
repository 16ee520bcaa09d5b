//! Generating and copying mixed, and the coverage loss: the equations, their gradients, limits, and the same bits on any
//! number of threads.

use polyhead_tensor::ops::copying::{CopyMixture, copy_cross_entropy, copy_distribution, coverage_loss};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};

use crate::finite_difference::{assert_same_for_any_threads, assert_values_and_gradients, bits, run, tensor};

const VOCAB: usize = 6;
/// Two sentences of four source positions; 6 and 7 are words that the vocabulary lacks.
const SOURCES: [u32; 8] = [3, 6, 3, 7, 2, 5, 6, 0];
/// Three target positions each: known and copied, unknown, known only; unknown, ignored, known only.
const EXPECTED: [u32; 6] = [3, 7, 4, 6, 1, 4];

fn options(label_smoothing: f32) -> CrossEntropyOptions {
    CrossEntropyOptions { label_smoothing, ignored_id: Some(1) }
}

/// Logits, attention weights that are positive and sum to less than 1, and gates.
fn inputs() -> Vec<Tensor> {
    let mut weights = tensor(&[2, 3, 4], 2);
    weights.data_mut().iter_mut().for_each(|weight| *weight = 0.12 + 0.1 * *weight);
    vec![tensor(&[2, 3, VOCAB], 1), weights, tensor(&[2, 3, 1], 3)]
}

fn mixed(smoothing: f32) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| {
        let [logits, weights, gate] = inputs else { panic!("three inputs") };
        let mixture = CopyMixture { logits, weights, gate, sources: &SOURCES.as_slice().into() };
        copy_cross_entropy(tape, mixture, &EXPECTED.as_slice().into(), options(smoothing))
    }
}

/// P(w) of a row for every id, as the equation has it.
fn probabilities(inputs: &[Vec<f64>], row: usize) -> (Vec<f64>, Vec<f64>) {
    let [logits, weights, gates] = inputs else { panic!("three inputs") };
    let exponents: Vec<f64> = logits[row * VOCAB..][..VOCAB].iter().map(|logit| logit.exp()).collect();
    let total: f64 = exponents.iter().sum();
    let generated: Vec<f64> = exponents.iter().map(|exponent| exponent / total).collect();
    let p = 1.0 / (1.0 + (-gates[row]).exp());
    let mut mixed: Vec<f64> = generated.iter().map(|y| p * y).chain([0.0; 4]).collect();
    for (i, id) in SOURCES[row / 3 * 4..][..4].iter().enumerate() {
        mixed[*id as usize] += (1.0 - p) * weights[row * 4 + i];
    }
    (mixed, generated)
}

fn equation(inputs: &[Vec<f64>], smoothing: f64) -> Vec<f64> {
    let mut losses = Vec::new();
    for (row, &id) in EXPECTED.iter().enumerate().filter(|(_, id)| **id != 1) {
        let (mixed, generated) = probabilities(inputs, row);
        let spread = generated.iter().map(|y| -y.ln()).sum::<f64>() / VOCAB as f64;
        losses.push(-(1.0 - smoothing) * mixed[id as usize].ln() + smoothing * spread);
    }
    vec![losses.iter().sum::<f64>() / losses.len() as f64]
}

/// The bits of the value and of all gradients.
fn all_bits(inputs: &[Tensor], fused: impl Fn(&Tape, &[Var]) -> Result<Var>) -> Vec<Vec<u32>> {
    let (value, gradients) = run(inputs, fused);
    [value].iter().chain(gradients.iter().flatten()).map(|tensor| bits(tensor.data())).collect()
}

#[test]
fn values_and_gradients_equal_the_equation() {
    for smoothing in [0.0, 0.1] {
        let what = format!("smoothing {smoothing}");
        assert_values_and_gradients(&what, &inputs(), mixed(smoothing), |inputs| {
            equation(inputs, f64::from(smoothing))
        });
        assert_same_for_any_threads(|| all_bits(&inputs(), mixed(smoothing)));
    }
}

#[test]
fn the_distribution_sums_to_one_and_has_the_probabilities_of_the_loss() {
    let mut all = inputs();
    for row in all[1].data_mut().chunks_exact_mut(4) {
        let sum: f32 = row.iter().sum();
        for weight in row {
            *weight /= sum;
        }
    }
    let vars: Vec<Var> = all.iter().map(|input| Var::constant(input.clone())).collect();
    let sources = SOURCES.as_slice().into();
    let mixture = CopyMixture { logits: &vars[0], weights: &vars[1], gate: &vars[2], sources: &sources };
    let found = copy_distribution(mixture).unwrap();
    assert_eq!(found.shape(), [6, VOCAB + 4]);
    let exact: Vec<Vec<f64>> =
        all.iter().map(|input| input.data().iter().map(|&number| f64::from(number)).collect()).collect();
    for (row, found) in found.data().chunks_exact(VOCAB + 4).enumerate() {
        let sum: f64 = found.iter().map(|log| f64::from(*log).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        for (found, expected) in found.iter().zip(probabilities(&exact, row).0) {
            assert!((f64::from(*found).exp() - expected).abs() < 1e-6, "{found} {expected}");
        }
        // Word 7 is in the first sentence only, 8 and 9 in none.
        assert_eq!(found[7] == f32::NEG_INFINITY, row >= 3);
        assert_eq!(found[8..], [f32::NEG_INFINITY; 2]);
    }
    // Without weight on what can be generated alone, ln P is ln p + ln softmax, to the bit.
    let tape = Tape::inference();
    let loss = copy_cross_entropy(&tape, mixture, &EXPECTED.as_slice().into(), options(0.0)).unwrap();
    let mean = [0, 1, 2, 3, 5].map(|row| found.data()[row * 10 + EXPECTED[row] as usize]).iter().sum::<f32>();
    assert!((loss.value().data()[0] + mean / 5.0).abs() < 1e-6);
}

#[test]
fn extreme_gates_and_weights_stay_finite() {
    for gate in [-1e4, -90.0, 0.0, 90.0, 1e4] {
        let logits = Tensor::new(&[1, 2, VOCAB], [3e4, -3e4, 0.0, 1.0, 2.0, -1e30].repeat(2));
        let weights = Tensor::new(&[1, 2, 4], vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let tape = Tape::training(1, 1);
        let vars = [logits, weights, Tensor::new(&[1, 2, 1], vec![gate; 2])].map(|input| tape.input(input));
        let [logits, weights, gate] = &vars;
        let mixture = CopyMixture { logits, weights, gate, sources: &[3, 6, 3, 7].as_slice().into() };
        // 6 has no weight at all, 5 neither logit nor weight.
        let loss = copy_cross_entropy(&tape, mixture, &[6, 5].as_slice().into(), options(0.0)).unwrap();
        let found = loss.value().data()[0];
        assert!(!found.is_nan() && found > 20.0, "{found}");
        let gradients = tape.backward(&loss);
        for var in &vars {
            assert!(gradients.of(var).unwrap().data().iter().all(|number| number.is_finite()));
        }
    }
}

#[test]
fn generating_alone_is_cross_entropy() {
    let mut all = inputs();
    all[2].data_mut().fill(40.0);
    let vars: Vec<Var> = all.iter().map(|input| Var::constant(input.clone())).collect();
    let expected = [3, 2, 4, 5, 1, 4].as_slice().into();
    let mixture = CopyMixture {
        logits: &vars[0],
        weights: &vars[1],
        gate: &vars[2],
        sources: &SOURCES.as_slice().into(),
    };
    let tape = Tape::inference();
    let found = copy_cross_entropy(&tape, mixture, &expected, options(0.1)).unwrap();
    let plain = cross_entropy(&tape, &vars[0], &expected, options(0.1)).unwrap();
    assert!((found.value().data()[0] - plain.value().data()[0]).abs() < 1e-6);
}

fn covered(tape: &Tape, inputs: &[Var]) -> Result<Var> {
    coverage_loss(tape, &inputs[0], &EXPECTED.as_slice().into(), Some(1))
}

#[test]
fn coverage_equals_the_equation() {
    let weights = vec![inputs().remove(1)];
    let equation = |inputs: &[Vec<f64>]| {
        let mut total = 0.0;
        for row in (0..6).filter(|row| EXPECTED[*row] != 1) {
            for i in 0..4 {
                let before: f64 = (row / 3 * 3..row).map(|earlier| inputs[0][earlier * 4 + i]).sum();
                total += inputs[0][row * 4 + i].min(before);
            }
        }
        vec![total / 5.0]
    };
    assert_values_and_gradients("coverage", &weights, covered, equation);
    assert_same_for_any_threads(|| all_bits(&weights, covered));
}

#[test]
fn shapes_and_ids_that_do_not_fit_are_refused() {
    let vars: Vec<Var> = inputs().into_iter().map(Var::constant).collect();
    let tape = Tape::inference();
    let loss = |expected: &[u32], sources: &[u32]| {
        let sources = sources.into();
        let mixture = CopyMixture { logits: &vars[0], weights: &vars[1], gate: &vars[2], sources: &sources };
        copy_cross_entropy(&tape, mixture, &expected.into(), options(0.0)).map(|_| ())
    };
    assert!(loss(&EXPECTED, &SOURCES).is_ok());
    assert!(matches!(loss(&EXPECTED[..5], &SOURCES), Err(Error::Shape { .. })));
    assert!(matches!(loss(&EXPECTED, &SOURCES[..7]), Err(Error::Shape { .. })));
    // 7 is not in the second sentence.
    assert!(matches!(
        loss(&[3, 7, 4, 7, 1, 4], &SOURCES),
        Err(Error::Id { id: 7, position: 3, vocab_size: 6, .. })
    ));
    let wrong = coverage_loss(&tape, &vars[1], &[1, 2].as_slice().into(), None);
    assert!(matches!(wrong, Err(Error::Shape { .. })));
}
