//! The tape: one gradient per input, the sum over its uses; nothing is stored if no gradient is needed.

use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm};
use polyhead_tensor::{ParameterId, Parameters, Tape, Tensor, Var, pool};

use crate::finite_difference::{assert_values_and_gradients, tensor, tensors, weigh};

/// y = w·x over two tapes: dw is the sum of both x, and a parameter that only the second uses appears.
#[test]
fn gradients_of_several_batches_add_up() {
    let mut parameters = Parameters::default();
    let weight = parameters.add("weight", Tensor::new(&[1, 1], vec![3.0]));
    let bias = parameters.add("bias", Tensor::new(&[1], vec![0.0]));
    let batch = |x: f32, uses_bias: bool| {
        let tape = Tape::training(0, 0);
        let x = Var::constant(Tensor::new(&[1, 1], vec![x]));
        let bias = uses_bias.then(|| tape.parameter(&parameters, bias));
        let weight = tape.parameter(&parameters, weight);
        let y = linear(&tape, &x, &weight, bias.as_ref(), LinearOptions::default()).unwrap();
        tape.backward(&y)
    };
    let mut gradients = batch(5.0, false);
    gradients.accumulate(&batch(7.0, true));
    gradients.accumulate(&batch(1.0, true));
    let found: Vec<(ParameterId, f32)> = gradients.parameters().map(|(id, g)| (id, g.data()[0])).collect();
    assert_eq!(found, [(weight, 13.0), (bias, 2.0)]);
}

#[test]
fn a_parameter_used_twice_has_one_gradient_the_sum() {
    let mut parameters = Parameters::default();
    let id = parameters.add("weight", Tensor::new(&[1, 1], vec![3.0]));
    let tape = Tape::training(0, 0);
    let x = Var::constant(Tensor::new(&[1, 1], vec![5.0]));
    let [first, second] = [tape.parameter(&parameters, id), tape.parameter(&parameters, id)];
    // y = w·(w·x), dy/dw = 2wx.
    let inner = linear(&tape, &x, &first, None, LinearOptions::default()).unwrap();
    let y = linear(&tape, &inner, &second, None, LinearOptions::default()).unwrap();
    let gradients = tape.backward(&y);
    let found: Vec<(ParameterId, &[f32])> = gradients.parameters().map(|(id, g)| (id, g.data())).collect();
    assert_eq!(found, [(id, &[30.0][..])]);
    assert_eq!(gradients.of(&first).unwrap().data(), [30.0]);
    assert_eq!(gradients.of(&second).unwrap().data(), [30.0]);
}

#[test]
fn constants_and_unused_inputs_have_no_gradient() {
    let mut parameters = Parameters::default();
    let id = parameters.add("unused", tensor(&[2, 3], 1));
    let tape = Tape::training(0, 0);
    let unused = tape.parameter(&parameters, id);
    let constant = Var::constant(tensor(&[4, 3], 2));
    let weight = tape.input(tensor(&[2, 3], 3));
    let y = linear(&tape, &constant, &weight, None, LinearOptions::default()).unwrap();
    let loss = weigh(&tape, &y);
    let gradients = tape.backward(&loss);
    assert!(!constant.needs_gradient() && gradients.of(&constant).is_none());
    assert!(gradients.of(&unused).is_none() && gradients.parameters().next().is_none());
    assert!(gradients.of(&weight).is_some());
}

#[test]
fn operations_on_constants_are_not_recorded() {
    let tape = Tape::training(0, 0);
    let [x, weight] = [tensor(&[4, 3], 2), tensor(&[2, 3], 3)].map(Var::constant);
    assert!(!linear(&tape, &x, &weight, None, LinearOptions::default()).unwrap().needs_gradient());
    assert_eq!(format!("{tape:?}"), "Tape(0 operations)");
}

#[test]
fn an_inference_tape_records_nothing() {
    let tape = Tape::inference();
    let [x, weight] = [tensor(&[4, 3], 2), tensor(&[2, 3], 3)].map(|value| tape.input(value));
    let y = linear(&tape, &x, &weight, None, LinearOptions::default()).unwrap();
    assert!(!tape.is_training() && ![&x, &weight, &y].iter().any(|var| var.needs_gradient()));
    assert_eq!(format!("{tape:?}"), "Tape(0 operations)");
    let loss = weigh(&tape, &y);
    let gradients = tape.backward(&loss);
    assert!(gradients.of(&weight).is_none() && gradients.parameters().next().is_none());
}

#[test]
fn a_view_in_another_shape_gives_its_gradient_to_the_value() {
    // y = (x·Wᵀ as 2 × 6)·Vᵀ with x of 4 × 5, W of 3 × 5, V of 2 × 6; the view is also used as it was.
    assert_values_and_gradients(
        "view",
        &tensors(&[&[4, 5], &[3, 5], &[2, 6], &[3, 3]]),
        |tape, inputs| {
            let inner = linear(tape, &inputs[0], &inputs[1], None, LinearOptions::default())?;
            let outer = linear(tape, &inner.reshaped(&[2, 6]), &inputs[2], None, LinearOptions::default())?;
            let other = linear(tape, &inner, &inputs[3], None, LinearOptions::default())?;
            let joined = other.reshaped(&[1, 12]);
            linear(tape, &outer.reshaped(&[4, 1]), &joined.reshaped(&[12, 1]), None, LinearOptions::default())
        },
        |inputs| {
            let product = |a: &[f64], b: &[f64], depth: usize| -> Vec<f64> {
                let dot = |(a, b): (&[f64], &[f64])| a.iter().zip(b).map(|(a, b)| a * b).sum();
                a.chunks_exact(depth)
                    .flat_map(|a| b.chunks_exact(depth).map(move |b| (a, b)))
                    .map(dot)
                    .collect()
            };
            let inner = product(&inputs[0], &inputs[1], 5);
            let [outer, other] = [product(&inner, &inputs[2], 6), product(&inner, &inputs[3], 3)];
            product(&outer, &other, 1)
        },
    );
}

#[test]
fn the_gradient_of_a_view_of_an_input_has_the_shape_of_the_input() {
    let tape = Tape::training(0, 0);
    let x = tape.input(tensor(&[3, 4], 1));
    let loss = weigh(&tape, &x);
    let gradients = tape.backward(&loss.reshaped(&[]));
    assert_eq!(gradients.of(&x).unwrap().shape(), [3, 4]);
}

/// One step of a small model that uses every operation.
fn training_step(parameters: &mut Parameters, adam: &mut Adam, step: u64) {
    let tape = Tape::training(1, step);
    let get = |name: &str| tape.parameter(parameters, parameters.find(name).unwrap());
    let [table, weight, bias, gamma, beta] = ["table", "weight", "bias", "gamma", "beta"].map(get);
    let ids = [1, 2, 3, 4, 5, 6, 7, 0, 1, 2].into();
    let x = embedding(&tape, &ids, 5, &table, &EmbeddingOptions::default()).unwrap();
    #[allow(clippy::needless_update, reason = "the options may grow")]
    let options = AttentionOptions { n_heads: 3, dropout: 0.1, ..Default::default() };
    let context = attention(&tape, &x, &x, &x, &options).unwrap();
    let y = linear(&tape, &context, &weight, Some(&bias), LinearOptions::default()).unwrap();
    let y = layer_norm(&tape, &y, Some(&x), [&gamma, &beta], NormOptions::default()).unwrap();
    let logits = linear(&tape, &y, &table, None, LinearOptions::default()).unwrap();
    let loss = cross_entropy(&tape, &logits, &ids, CrossEntropyOptions::default()).unwrap();
    let mut gradients = tape.backward(&loss);
    clip_global_norm(&mut gradients, 1.0);
    adam.step(parameters, &gradients);
}

/// Runs `work` alone: other tests of this binary share the pool and its counter, so the test called `name` starts
/// itself again in a process of its own.
fn alone(name: &str, work: impl FnOnce()) {
    const ALONE: &str = "POLYHEAD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return work();
    }
    let program = std::env::current_exe().unwrap();
    let output =
        std::process::Command::new(program).args([name, "--exact"]).env(ALONE, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn after_two_steps_no_buffer_is_allocated() {
    alone("tape::after_two_steps_no_buffer_is_allocated", || {
        let mut parameters = Parameters::default();
        let shapes: [(&str, &[usize]); 5] =
            [("table", &[8, 12]), ("weight", &[12, 12]), ("bias", &[12]), ("gamma", &[12]), ("beta", &[12])];
        for ((name, shape), stream) in shapes.into_iter().zip(1..) {
            parameters.add(name, tensor(shape, stream));
        }
        let mut adam = Adam::new(AdamOptions::default());
        (0..2).for_each(|step| training_step(&mut parameters, &mut adam, step));
        let warm = pool::buffers_made();
        assert!(warm > 0);
        (2..12).for_each(|step| training_step(&mut parameters, &mut adam, step));
        assert_eq!(pool::buffers_made(), warm);
    });
}

/// A step takes from the pool as many buffers as it returns, scalars too; otherwise the pool would grow with every
/// step.
#[test]
fn the_buffer_of_a_scalar_is_reused() {
    alone("tape::the_buffer_of_a_scalar_is_reused", || {
        let places: Vec<*const f32> = (0..3).map(|_| Tensor::scalar(1.0).data().as_ptr()).collect();
        assert!(places[0] == places[1] && places[1] == places[2]);
    });
}
