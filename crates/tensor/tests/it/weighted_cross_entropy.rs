//! Cross-entropy with a weight for each class: PyTorch's values, the equation, its laws, and independence of threads.

use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::weighted_cross_entropy::{ClassWeights, weighted_cross_entropy};
use polyhead_tensor::{Error, Tape, Var};

use crate::gradient::{check, golden, numbers, run, same_bits};

const TARGETS: [u32; 9] = [3, 0, 4, 4, 2, 0, 1, 4, 3];

fn options(label_smoothing: f32, ignored_id: Option<u32>) -> CrossEntropyOptions {
    CrossEntropyOptions { label_smoothing, ignored_id }
}

fn loss(tape: &Tape, logits: &Var, weights: &[f32], options: CrossEntropyOptions) -> Var {
    weighted_cross_entropy(tape, logits, &TARGETS.into(), &ClassWeights::new(weights), options).unwrap()
}

#[test]
fn values_and_gradients_are_those_of_pytorch() {
    golden(&["weighted_cross_entropy"], |name, tape, vars| {
        let numbers: Vec<f32> = name.split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
        let ignored = (numbers[6] >= 0.0).then_some(numbers[6] as u32);
        loss(tape, &vars[0], &numbers[..5], options(numbers[5], ignored))
    });
}

#[test]
fn values_and_gradients_equal_the_equation() {
    let weights = [0.25, 4.0, 1.5, 0.5, 2.0];
    for (smoothing, ignored) in [(0.0, None), (0.1, Some(0)), (1.0, Some(4))] {
        let logits = [numbers(&[9, 5], 3, [-4.0, 4.0])];
        let reference = |inputs: &[Vec<f64>]| {
            let (mut sum, mut total) = (0.0, 0.0);
            for (row, &target) in inputs[0].chunks_exact(5).zip(&TARGETS) {
                if Some(target) == ignored {
                    continue;
                }
                let logsumexp = row.iter().map(|z| z.exp()).sum::<f64>().ln();
                let smoothing = f64::from(smoothing);
                for (id, (z, weight)) in row.iter().zip(weights).enumerate() {
                    let right = if id == target as usize { 1.0 - smoothing } else { 0.0 };
                    sum += (right + smoothing / 5.0) * f64::from(weight) * (logsumexp - z);
                }
                total += f64::from(weights[target as usize]);
            }
            vec![sum / total]
        };
        check(
            "weighted_cross_entropy",
            &logits,
            |tape, vars| loss(tape, &vars[0], &weights, options(smoothing, ignored)),
            reference,
        );
    }
}

#[test]
fn equal_weights_are_plain_cross_entropy_and_a_double_weight_counts_a_row_twice() {
    let logits = [numbers(&[9, 5], 3, [-4.0, 4.0])];
    let smooth = options(0.1, Some(1));
    let (plain, [gradient]) = {
        let (value, gradients) =
            run(&logits, None, |tape, vars| cross_entropy(tape, &vars[0], &TARGETS.into(), smooth).unwrap());
        (value.data()[0], <[_; 1]>::try_from(gradients).unwrap())
    };
    let (same, gradients) = run(&logits, None, |tape, vars| loss(tape, &vars[0], &[3.0; 5], smooth));
    assert!((same.data()[0] - plain).abs() < 1e-6);
    assert!(gradients[0].data().iter().zip(gradient.data()).all(|(a, b)| (a - b).abs() < 1e-6));
    // Rows of class 4 twice.
    let twice: Vec<usize> = (0..9).chain([2, 3, 7]).collect();
    let rows: Vec<f32> = twice.iter().flat_map(|&row| logits[0].data()[row * 5..][..5].to_vec()).collect();
    let targets: Vec<u32> = twice.iter().map(|&row| TARGETS[row]).collect();
    let rows = [polyhead_tensor::Tensor::new(&[12, 5], rows)];
    let (expected, _) = run(&rows, None, |tape, vars| {
        cross_entropy(tape, &vars[0], &targets.clone().into(), options(0.0, None)).unwrap()
    });
    let (found, _) =
        run(&logits, None, |tape, vars| loss(tape, &vars[0], &[1.0, 1.0, 1.0, 1.0, 2.0], options(0.0, None)));
    assert!((found.data()[0] - expected.data()[0]).abs() < 1e-6);
}

#[test]
fn threads_change_nothing_and_wrong_shapes_are_named() {
    let targets: Vec<u32> = (0..3000).map(|row| row * 7 % 131).collect();
    let weights: Vec<f32> = (0..131).map(|class| 0.5 + class as f32 / 50.0).collect();
    let logits = [numbers(&[3000, 131], 5, [-4.0, 4.0])];
    same_bits("weighted_cross_entropy", &logits, |tape, vars| {
        let weights = ClassWeights::new(&weights);
        weighted_cross_entropy(tape, &vars[0], &targets.clone().into(), &weights, options(0.1, Some(3)))
            .unwrap()
    });
    let tape = Tape::inference();
    let input = tape.input(numbers(&[9, 5], 3, [-4.0, 4.0]));
    let error = |weights: &[f32], ids: &[u32]| {
        let weights = ClassWeights::new(weights);
        weighted_cross_entropy(&tape, &input, &ids.into(), &weights, options(0.0, None)).unwrap_err()
    };
    assert!(error(&[1.0; 4], &TARGETS).to_string().contains("weights"));
    assert!(error(&[1.0; 5], &[1; 8]).to_string().contains("targets"));
    assert!(matches!(error(&[1.0; 5], &[5; 9]), Error::Id { id: 5, vocab_size: 5, .. }));
    // All rows ignored.
    let none = weighted_cross_entropy(
        &tape,
        &input,
        &[4; 9].into(),
        &ClassWeights::new(&[1.0; 5]),
        options(0.1, Some(4)),
    );
    assert!(none.unwrap().value().data()[0].abs() < f32::EPSILON);
}
