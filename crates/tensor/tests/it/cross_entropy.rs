//! Cross-entropy: the equation, its gradient, ignored rows, and independence of threads and batch.

use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    all_zero, assert_same_for_any_threads, assert_values_and_gradients, bits, run, tensor,
};

/// −Σ q log softmax(z), q = (1 − ε) on the target id + ε/V everywhere; the mean over rows that are not ignored.
fn equation(logits: &[f64], targets: &[u32], options: CrossEntropyOptions) -> Vec<f64> {
    let vocab_size = logits.len() / targets.len();
    let smoothing = f64::from(options.label_smoothing);
    let mut losses = Vec::new();
    for (row, &target) in logits.chunks_exact(vocab_size).zip(targets) {
        if Some(target) == options.ignored_id {
            continue;
        }
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let logsumexp = largest + row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln();
        let loss = |id: usize| {
            let right = if id == target as usize { 1.0 - smoothing } else { 0.0 };
            (right + smoothing / vocab_size as f64) * (logsumexp - row[id])
        };
        losses.push((0..vocab_size).map(loss).sum::<f64>());
    }
    vec![losses.iter().sum::<f64>() / losses.len().max(1) as f64]
}

fn options(label_smoothing: f32, ignored_id: Option<u32>) -> CrossEntropyOptions {
    #[allow(clippy::needless_update, reason = "the options may grow")]
    CrossEntropyOptions { label_smoothing, ignored_id, ..Default::default() }
}

fn fused(targets: &[u32], options: CrossEntropyOptions) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| cross_entropy(tape, &inputs[0], &targets.into(), options)
}

/// Logits from −6 to 6.
fn logits(shape: &[usize]) -> Tensor {
    let mut logits = tensor(shape, 1);
    logits.data_mut().iter_mut().for_each(|logit| *logit *= 6.0);
    logits
}

fn random_ids(count: usize, vocab_size: usize) -> Vec<u32> {
    let random = Random::new(4);
    (0..count as u64).map(|index| (random.u64(index) % vocab_size as u64) as u32).collect()
}

#[test]
fn values_and_gradients_equal_the_equation() {
    let targets = [3, 0, 6, 6, 2, 0];
    for smoothing in [0.0, 0.1, 1.0] {
        for ignored in [None, Some(0), Some(6), Some(99)] {
            let options = options(smoothing, ignored);
            assert_values_and_gradients(
                &format!("{options:?}"),
                &[logits(&[2, 3, 7])],
                fused(&targets, options),
                |inputs| equation(&inputs[0], &targets, options),
            );
        }
    }
}

#[test]
fn large_logits_do_not_overflow() {
    let inputs = [Tensor::new(&[2, 3], vec![3e4, -3e4, 2.9e4, -1e30, 0.0, 5.0])];
    let (loss, gradients) = run(&inputs, fused(&[1, 2], options(0.0, None)));
    let upstream = f64::from(tensor(&[1, 1], 99).data()[0]);
    let losses = [6e4, (1.0 + (-5_f64).exp()).ln()];
    assert!((f64::from(loss.data()[0]) - losses.iter().sum::<f64>() / 2.0).abs() < 1e-2);
    let found = gradients[0].as_ref().unwrap().data();
    for (found, expected) in found.iter().zip([0.5, -0.5, 0.0]) {
        assert!((f64::from(*found) - expected * upstream).abs() < 1e-6, "{found} {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn values_and_gradients_are_correct_for_any_shape(
        rows in 1_usize..8, vocab_size in 1_usize..40, smoothing in 0_u32..10, ignored in 0_u32..5,
    ) {
        let targets = random_ids(rows, vocab_size);
        let options = options(smoothing as f32 / 10.0, (ignored > 0).then_some(ignored));
        assert_values_and_gradients("cross_entropy", &[logits(&[rows, vocab_size])], fused(&targets, options), |inputs| {
            equation(&inputs[0], &targets, options)
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (input, targets) = (logits(&[300, 211]), random_ids(300, 211));
    assert_same_for_any_threads(|| {
        let (loss, gradients) = run(std::slice::from_ref(&input), fused(&targets, options(0.1, Some(7))));
        (bits(loss.data()), bits(gradients[0].as_ref().unwrap().data()))
    });
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let (input, targets) = (logits(&[17, 211]), random_ids(17, 211));
    let loss = |input: Tensor, targets: &[u32]| {
        let input = Var::constant(input);
        fused(targets, options(0.1, None))(&Tape::inference(), &[input]).unwrap().value().data()[0]
    };
    let alone = |row: usize| {
        let data = input.data()[row * 211..(row + 1) * 211].to_vec();
        loss(Tensor::new(&[1, 211], data), &targets[row..=row])
    };
    // The mean of a batch is taken in f64, so it is the mean of its rows to the bit.
    for count in 1..=17 {
        let mean = (0..count).map(|row| f64::from(alone(row))).sum::<f64>() / count as f64;
        let batch = Tensor::new(&[count, 211], input.data()[..count * 211].to_vec());
        assert_eq!(loss(batch, &targets[..count]).to_bits(), (mean as f32).to_bits(), "{count} rows");
    }
}

#[test]
fn the_loss_of_ignored_rows_only_is_zero() {
    for smoothing in [0.0, 0.1] {
        let (loss, gradients) = run(&[logits(&[3, 7])], fused(&[2, 2, 2], options(smoothing, Some(2))));
        assert_eq!(loss.data(), [0.0]);
        assert!(all_zero(&gradients));
        for shape in [[0, 7], [0, 0]] {
            let (loss, gradients) = run(&[logits(&shape)], fused(&[], options(smoothing, None)));
            assert_eq!(loss.data(), [0.0]);
            assert!(all_zero(&gradients));
        }
    }
}

#[test]
fn an_ignored_row_may_hold_anything() {
    let mut input = logits(&[2, 7]);
    input.data_mut()[..7].fill(f32::NAN);
    let (loss, gradients) = run(&[input], fused(&[99, 3], options(0.1, Some(99))));
    assert!(loss.data()[0].is_finite());
    let gradient = gradients[0].as_ref().unwrap().data();
    assert!(gradient[..7].iter().all(|&g| g == 0.0) && gradient[7..].iter().all(|g| g.is_finite()));
}

#[test]
fn nan_is_not_hidden() {
    for place in [0, 3, 6] {
        let mut input = logits(&[2, 7]);
        input.data_mut()[place] = f32::NAN;
        let (loss, gradients) = run(&[input], fused(&[3, 3], options(0.0, None)));
        assert!(loss.data()[0].is_nan());
        assert!(gradients[0].as_ref().unwrap().data()[..7].iter().all(|g| g.is_nan()));
    }
    let (loss, _) = run(&[Tensor::new(&[1, 2], vec![f32::INFINITY, 0.0])], fused(&[0], options(0.0, None)));
    assert!(loss.data()[0].is_nan());
}

#[test]
fn a_target_of_probability_zero_has_infinite_loss() {
    let (loss, _) =
        run(&[Tensor::new(&[1, 2], vec![f32::NEG_INFINITY, 0.0])], fused(&[0], options(0.0, None)));
    assert_eq!(loss.data()[0], f32::INFINITY);
}

#[test]
fn ids_outside_the_vocabulary_and_wrong_counts_are_errors() {
    let input = Var::constant(logits(&[3, 7]));
    let error = |targets: &[u32]| {
        cross_entropy(&Tape::inference(), &input, &targets.into(), options(0.0, Some(50))).unwrap_err()
    };
    let outside = Error::Id { operation: "cross_entropy", id: 7, position: 2, vocab_size: 7 };
    assert_eq!(error(&[50, 6, 7]), outside);
    for targets in [&[0, 1][..], &[0, 1, 2, 3]] {
        match error(targets) {
            Error::Shape { operation, name, .. } => {
                assert_eq!([operation, name], ["cross_entropy", "targets"]);
            }
            other => panic!("{other}"),
        }
    }
}
