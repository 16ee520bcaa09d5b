//! Output layer with its loss: the bits of `linear` followed by the loss, and the laws of every operation.

use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDropOptions, r_drop};
use polyhead_tensor::{Error, Indices, Result, Tape, Tensor, Var};

use crate::finite_difference::{
    GRADIENT, assert_close, assert_same_for_any_threads, bits, run, tensor, wide,
};

/// x, W and b.
fn inputs(rows: usize, d_in: usize, vocab_size: usize) -> Vec<Tensor> {
    vec![tensor(&[rows, d_in], 1), tensor(&[vocab_size, d_in], 2), tensor(&[vocab_size], 3)]
}

fn ids(count: usize, vocab_size: usize) -> Indices {
    let random = Random::new(4);
    (0..count as u64).map(|index| (random.u64(index) % vocab_size as u64) as u32).collect()
}

fn layer(inputs: &[Var]) -> OutputLayer<'_> {
    OutputLayer { x: &inputs[0], weight: &inputs[1], bias: inputs.get(2) }
}

fn logits(tape: &Tape, inputs: &[Var]) -> Result<Var> {
    linear(tape, &inputs[0], &inputs[1], inputs.get(2), LinearOptions::default())
}

/// The loss and the gradients of all inputs, for a gradient of the loss of 1.
fn differentiated(inputs: &[Tensor], loss: impl Fn(&Tape, &[Var]) -> Result<Var>) -> (Vec<u32>, Vec<Tensor>) {
    let tape = Tape::training(5, 1);
    let vars: Vec<Var> = inputs.iter().map(|input| tape.input(input.clone())).collect();
    let loss = loss(&tape, &vars).unwrap();
    let gradients = tape.backward(&loss);
    (bits(loss.value().data()), vars.iter().map(|var| gradients.of(var).unwrap().clone()).collect())
}

fn all_bits((loss, gradients): &(Vec<u32>, Vec<Tensor>)) -> Vec<Vec<u32>> {
    std::iter::once(loss.clone()).chain(gradients.iter().map(|gradient| bits(gradient.data()))).collect()
}

#[test]
fn the_bits_equal_a_linear_layer_followed_by_a_loss() {
    // More rows than a chunk of one thread has, and fewer.
    for (rows, vocab_size) in [(1, 1), (40, 33), (700, 61)] {
        let (inputs, targets) = (inputs(rows, 19, vocab_size), ids(rows, vocab_size));
        for (smoothing, ignored) in [(0.0, None), (0.1, Some(targets.host()[rows / 3]))] {
            let options = CrossEntropyOptions { label_smoothing: smoothing, ignored_id: ignored };
            for inputs in [&inputs[..], &inputs[..2]] {
                let found = differentiated(inputs, |tape, vars| {
                    output_cross_entropy(tape, layer(vars), &targets, options)
                });
                let expected = differentiated(inputs, |tape, vars| {
                    cross_entropy(tape, &logits(tape, vars)?, &targets, options)
                });
                assert!(all_bits(&found) == all_bits(&expected), "{rows} rows, {options:?}");
            }
        }
    }
}

#[test]
fn two_passes_equal_a_linear_layer_followed_by_a_loss() {
    let (inputs, targets) = (inputs(700, 19, 61), ids(350, 61));
    let cross_entropy = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(targets.host()[3]) };
    let options = RDropOptions { cross_entropy, ..RDropOptions::default() };
    let (loss, gradients) =
        differentiated(&inputs, |tape, vars| Ok(output_r_drop(tape, layer(vars), &targets, options)?.loss));
    let (expected_loss, expected) =
        differentiated(&inputs, |tape, vars| Ok(r_drop(tape, &logits(tape, vars)?, &targets, options)?.loss));
    assert_eq!(loss, expected_loss);
    assert_eq!(bits(gradients[0].data()), bits(expected[0].data()));
    // The rows of W and b are summed in another order.
    for (found, expected) in gradients.iter().zip(&expected) {
        assert_close("gradient", found.data(), &wide(expected.data()), GRADIENT);
    }
    let vars: Vec<Var> = inputs.into_iter().map(Var::constant).collect();
    let tape = Tape::inference();
    let found = output_r_drop(&tape, layer(&vars), &targets, options).unwrap();
    let expected = r_drop(&tape, &logits(&tape, &vars).unwrap(), &targets, options).unwrap();
    assert_eq!(
        [found.cross_entropy.data()[0].to_bits(), found.divergence.data()[0].to_bits()],
        [expected.cross_entropy.data()[0].to_bits(), expected.divergence.data()[0].to_bits()]
    );
}

#[test]
fn the_gradient_of_the_loss_scales_all_gradients() {
    let (inputs, targets) = (inputs(9, 5, 13), ids(9, 13));
    let options = CrossEntropyOptions::default();
    let (loss, found) = run(&inputs, |tape, vars| output_cross_entropy(tape, layer(vars), &targets, options));
    let (expected_loss, expected) =
        run(&inputs, |tape, vars| cross_entropy(tape, &logits(tape, vars)?, &targets, options));
    assert_eq!(loss.data(), expected_loss.data());
    for (found, expected) in found.iter().zip(&expected) {
        let [found, expected] = [found, expected].map(|gradient| gradient.as_ref().unwrap().data());
        assert_close("gradient", found, &wide(expected), GRADIENT);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (inputs, targets) = (inputs(1100, 19, 61), ids(1100, 61));
    let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(7) };
    assert_same_for_any_threads(|| {
        let one =
            differentiated(&inputs, |tape, vars| output_cross_entropy(tape, layer(vars), &targets, options));
        let two = RDropOptions { cross_entropy: options, ..RDropOptions::default() };
        let two = differentiated(&inputs, |tape, vars| {
            Ok(output_r_drop(tape, layer(vars), &targets.first(550), two)?.loss)
        });
        (all_bits(&one), all_bits(&two))
    });
}

#[test]
fn gradients_that_are_not_needed_are_not_computed() {
    let (inputs, targets) = (inputs(9, 5, 13), ids(9, 13));
    let tape = Tape::training(5, 1);
    let [x, weight] = [tape.input(inputs[0].clone()), Var::constant(inputs[1].clone())];
    let layer = OutputLayer { x: &x, weight: &weight, bias: None };
    let loss = output_cross_entropy(&tape, layer, &targets, CrossEntropyOptions::default()).unwrap();
    let gradients = tape.backward(&loss);
    assert!(gradients.of(&x).is_some() && gradients.of(&weight).is_none());
    let tape = Tape::training(5, 1);
    let [x, weight] = [Var::constant(inputs[0].clone()), tape.input(inputs[1].clone())];
    let layer = OutputLayer { x: &x, weight: &weight, bias: None };
    let loss = output_cross_entropy(&tape, layer, &targets, CrossEntropyOptions::default()).unwrap();
    let gradients = tape.backward(&loss);
    assert!(gradients.of(&x).is_none() && gradients.of(&weight).is_some());
}

#[test]
fn the_loss_of_ignored_rows_only_is_zero_and_wrong_sizes_are_errors() {
    let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(2) };
    let (loss, gradients) = differentiated(&inputs(3, 5, 7), |tape, vars| {
        output_cross_entropy(tape, layer(vars), &[2; 3].into(), options)
    });
    assert_eq!(loss, [0]);
    assert!(gradients.iter().all(|gradient| gradient.data().iter().all(|&number| number == 0.0)));
    let vars: Vec<Var> = inputs(3, 5, 7).into_iter().map(Var::constant).collect();
    let tape = Tape::inference();
    for targets in [&[0, 1][..], &[0, 1, 2, 3]] {
        let error = output_cross_entropy(&tape, layer(&vars), &targets.into(), options).unwrap_err();
        assert!(matches!(error, Error::Shape { name: "targets", .. }), "{error}");
    }
    let error = output_cross_entropy(&tape, layer(&vars), &[0, 7, 1].into(), options).unwrap_err();
    assert!(matches!(error, Error::Id { id: 7, position: 1, .. }), "{error}");
    let error = output_r_drop(&tape, layer(&vars), &[0].into(), RDropOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Shape { operation: "r_drop", .. }), "{error}");
}
