//! R-Drop: the equation, its gradient, its relation to the cross-entropy, and the laws of every operation.

use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    all_zero, assert_close, assert_same_for_any_threads, assert_values_and_gradients, bits, run, tensor, wide,
};

/// Cross-entropy and divergence, each a mean, as in the paper.
fn parts(logits: &[f64], targets: &[u32], options: RDropOptions) -> [f64; 2] {
    let vocab_size = logits.len() / (2 * targets.len()).max(1);
    let smoothing = f64::from(options.cross_entropy.label_smoothing);
    let logarithms = |row: &[f64]| -> Vec<f64> {
        let total = row.iter().map(|z| z.exp()).sum::<f64>().ln();
        row.iter().map(|z| z - total).collect()
    };
    let (first, second) = logits.split_at(logits.len() / 2);
    let (mut losses, mut divergences, mut count) = (0.0, 0.0, 0.0);
    for (index, &target) in targets.iter().enumerate() {
        if Some(target) == options.cross_entropy.ignored_id {
            continue;
        }
        let range = index * vocab_size..(index + 1) * vocab_size;
        let [p, q] = [logarithms(&first[range.clone()]), logarithms(&second[range])];
        for row in [&p, &q] {
            losses -= (1.0 - smoothing) * row[target as usize];
            losses -= smoothing * row.iter().sum::<f64>() / vocab_size as f64;
        }
        let kl = |p: &[f64], q: &[f64]| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
        divergences += 0.5 * (kl(&p, &q) + kl(&q, &p));
        count += 1.0;
    }
    [losses / f64::max(2.0 * count, 1.0), divergences / f64::max(count, 1.0)]
}

fn equation(logits: &[f64], targets: &[u32], options: RDropOptions) -> Vec<f64> {
    let [cross_entropy, divergence] = parts(logits, targets, options);
    vec![cross_entropy + f64::from(options.weight) * divergence]
}

fn options(weight: f32, label_smoothing: f32, ignored_id: Option<u32>) -> RDropOptions {
    RDropOptions { weight, cross_entropy: CrossEntropyOptions { label_smoothing, ignored_id } }
}

fn fused(targets: &[u32], options: RDropOptions) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| Ok(r_drop(tape, &inputs[0], &targets.into(), options)?.loss)
}

fn whole(logits: &Tensor, targets: &[u32], options: RDropOptions) -> RDrop {
    r_drop(&Tape::inference(), &Var::constant(logits.clone()), &targets.into(), options).unwrap()
}

/// Logits from −4 to 4.
fn logits(shape: &[usize]) -> Tensor {
    let mut logits = tensor(shape, 1);
    logits.data_mut().iter_mut().for_each(|logit| *logit *= 4.0);
    logits
}

fn random_ids(count: usize, vocab_size: usize) -> Vec<u32> {
    let random = Random::new(4);
    (0..count as u64).map(|index| (random.u64(index) % vocab_size as u64) as u32).collect()
}

#[test]
fn values_and_gradients_equal_the_equation() {
    let targets = [3, 0, 6];
    for weight in [0.0, 1.0, 2.5] {
        for smoothing in [0.0, 0.1, 1.0] {
            for ignored in [None, Some(0), Some(99)] {
                let options = options(weight, smoothing, ignored);
                assert_values_and_gradients(
                    &format!("{options:?}"),
                    &[logits(&[2, 3, 7])],
                    fused(&targets, options),
                    |inputs| equation(&inputs[0], &targets, options),
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn values_and_gradients_are_correct_for_any_shape(
        rows in 1_usize..5, vocab_size in 1_usize..40, smoothing in 0_u32..10, ignored in 0_u32..5,
    ) {
        let targets = random_ids(rows, vocab_size);
        let options = options(1.5, smoothing as f32 / 10.0, (ignored > 0).then_some(ignored));
        let inputs = [logits(&[2 * rows, vocab_size])];
        assert_values_and_gradients("r_drop", &inputs, fused(&targets, options), |inputs| {
            equation(&inputs[0], &targets, options)
        });
    }
}

#[test]
fn the_terms_equal_the_equation() {
    let (input, targets) = (logits(&[12, 23]), random_ids(6, 23));
    let options = options(2.0, 0.1, Some(targets[2]));
    let found = whole(&input, &targets, options);
    let expected = parts(&wide(input.data()), &targets, options);
    let [entropy, divergence] = [found.cross_entropy, found.divergence].map(|part| part.data()[0]);
    assert_close("parts", &[entropy, divergence], &expected, 1e-6);
    let loss = f64::from(entropy) + 2.0 * f64::from(divergence);
    assert_close("loss", found.loss.value().data(), &[loss], 1e-6);
}

#[test]
fn without_weight_it_is_the_cross_entropy_of_both_passes() {
    let (input, targets) = (logits(&[60, 211]), random_ids(30, 211));
    let twice = [&targets[..], &targets[..]].concat();
    for (smoothing, ignored) in [(0.0, None), (0.1, Some(targets[3]))] {
        let options = options(0.0, smoothing, ignored);
        let results = [
            run(std::slice::from_ref(&input), fused(&targets, options)),
            run(std::slice::from_ref(&input), |tape, inputs| {
                cross_entropy(tape, &inputs[0], &twice[..].into(), options.cross_entropy)
            }),
        ];
        let [found, expected] =
            results.map(|(loss, gradients)| [bits(loss.data()), bits(gradients[0].as_ref().unwrap().data())]);
        assert!(found == expected, "{options:?}");
        let parts = whole(&input, &targets, options);
        assert_eq!(parts.cross_entropy.data()[0].to_bits(), parts.loss.value().data()[0].to_bits());
    }
}

#[test]
fn equal_passes_have_no_divergence() {
    let half = logits(&[5, 33]);
    let input = Tensor::new(&[10, 33], [half.data(), half.data()].concat());
    let targets = random_ids(5, 33);
    assert_eq!(whole(&input, &targets, options(3.0, 0.1, None)).divergence.data(), [0.0]);
    let (_, with) = run(std::slice::from_ref(&input), fused(&targets, options(3.0, 0.1, None)));
    let (_, without) = run(&[input], fused(&targets, options(0.0, 0.1, None)));
    assert_eq!(with[0].as_ref().unwrap().data(), without[0].as_ref().unwrap().data());
}

#[test]
fn the_order_of_the_passes_does_not_matter() {
    let (input, targets) = (logits(&[10, 33]), random_ids(5, 33));
    let (first, second) = input.data().split_at(5 * 33);
    let turned = Tensor::new(&[10, 33], [second, first].concat());
    let [a, b] =
        [&input, &turned].map(|input| whole(input, &targets, RDropOptions::default()).divergence.data()[0]);
    assert_eq!(a.to_bits(), b.to_bits());
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (input, targets) = (logits(&[300, 211]), random_ids(150, 211));
    assert_same_for_any_threads(|| {
        let options = options(2.5, 0.1, Some(7));
        let (loss, gradients) = run(std::slice::from_ref(&input), fused(&targets, options));
        (bits(loss.data()), bits(gradients[0].as_ref().unwrap().data()))
    });
}

#[test]
fn logits_in_use_are_not_overwritten() {
    let targets = random_ids(3, 17);
    // Logits that nobody else holds become their gradient in place; the backward pass must not notice.
    let gradient = |keep: bool| {
        let tape = Tape::training(0, 0);
        let [x, weight] = [tape.input(tensor(&[6, 5], 1)), Var::constant(tensor(&[17, 5], 2))];
        let logits = linear(&tape, &x, &weight, None, LinearOptions::default()).unwrap();
        let before = logits.value().data().to_vec();
        let loss = r_drop(&tape, &logits, &targets[..].into(), RDropOptions::default()).unwrap().loss;
        let kept = keep.then_some(logits);
        let gradient = tape.backward(&loss).of(&x).unwrap().clone();
        assert!(kept.is_none_or(|kept| kept.value().data() == before));
        gradient
    };
    assert_eq!(gradient(true).data(), gradient(false).data());
}

#[test]
fn probabilities_of_zero_in_both_passes_do_no_harm() {
    let inf = f32::NEG_INFINITY;
    let input = Tensor::new(&[2, 3], vec![1.0, inf, 0.5, 0.2, inf, 0.9]);
    let (loss, gradients) = run(std::slice::from_ref(&input), fused(&[0], options(1.0, 0.0, None)));
    assert!(loss.data()[0].is_finite());
    assert!(gradients[0].as_ref().unwrap().data().iter().all(|number| number.is_finite()));
    let input = Tensor::new(&[2, 3], vec![1.0, inf, 0.5, 0.2, 0.1, 0.9]);
    assert_eq!(whole(&input, &[0], options(1.0, 0.0, None)).divergence.data(), [f32::INFINITY]);
    assert!(whole(&input, &[0], options(0.0, 0.0, None)).loss.value().data()[0].is_finite());
}

#[test]
fn the_loss_of_ignored_positions_only_is_zero() {
    let (loss, gradients) = run(&[logits(&[6, 7])], fused(&[2, 2, 2], options(1.0, 0.1, Some(2))));
    assert_eq!(loss.data(), [0.0]);
    assert!(all_zero(&gradients));
    for shape in [[0, 7], [0, 0]] {
        let (loss, gradients) = run(&[logits(&shape)], fused(&[], options(1.0, 0.1, None)));
        assert_eq!(loss.data(), [0.0]);
        assert!(all_zero(&gradients));
    }
}

#[test]
fn an_ignored_position_may_hold_anything_and_no_other_hides_it() {
    let mut input = logits(&[4, 7]);
    input.data_mut()[..7].fill(f32::NAN);
    let (loss, gradients) = run(std::slice::from_ref(&input), fused(&[99, 3], options(1.0, 0.1, Some(99))));
    assert!(loss.data()[0].is_finite());
    assert!(gradients[0].as_ref().unwrap().data().iter().all(|number| number.is_finite()));
    assert!(whole(&input, &[2, 3], options(1.0, 0.1, None)).loss.value().data()[0].is_nan());
}

#[test]
fn wrong_counts_ids_and_weights_are_errors() {
    let input = Var::constant(logits(&[6, 7]));
    let error = |targets: &[u32], weight: f32| {
        r_drop(&Tape::inference(), &input, &targets.into(), options(weight, 0.0, Some(50))).unwrap_err()
    };
    let outside = Error::Id { operation: "r_drop", id: 7, position: 2, vocab_size: 7 };
    assert_eq!(error(&[50, 6, 7], 1.0), outside);
    for targets in [&[0, 1][..], &[0, 1, 2, 3, 4, 5]] {
        assert!(matches!(error(targets, 1.0), Error::Shape { operation: "r_drop", name: "targets", .. }));
    }
    for weight in [-1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(error(&[0, 1, 2], weight), Error::Value { name: "weight", .. }));
    }
}
