//! Stochastic gradient descent: PyTorch's steps, hand-computed values, bits.

use polyhead_tensor::ops::elementwise::{mul, scale, square};
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::optim::{Momentum, Sgd, SgdOptions};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};

use crate::gradient::{close, f32s, f64s, numbers, unpacked};

/// θ after `steps` steps on the loss Σ weights·θ³/3.
fn descend(options: SgdOptions, start: Tensor, weights: &Tensor, steps: u64) -> Vec<f32> {
    let mut parameters = Parameters::default();
    let id = parameters.add("theta", start);
    let mut optimiser = Sgd::new(options);
    for step in 0..steps {
        let tape = Tape::training(1, step);
        let theta = tape.parameter(&parameters, id);
        let cube = mul(&tape, &square(&tape, &theta), &theta).unwrap();
        let weighted = mul(&tape, &cube, &Var::constant(weights.clone())).unwrap();
        let loss = scale(&tape, &sum(&tape, &weighted, Over::All).unwrap(), 1.0 / 3.0);
        optimiser.step(&mut parameters, &tape.backward(&loss));
    }
    parameters.value(id).data().to_vec()
}

#[test]
fn equal_to_pytorch() {
    let file = unpacked(include_bytes!("../golden/ops/ops.json.gz"));
    for case in file["sgd"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let momentum = match name {
            "momentum" => Momentum::Classical(0.9),
            "nesterov" => Momentum::Nesterov(0.9),
            _ => Momentum::None,
        };
        let weight_decay = if name == "plain" { 0.0 } else { 0.1 };
        let options = SgdOptions { learning_rate: 0.05, momentum, weight_decay };
        let [start, weights] = ["start", "weights"].map(|key| Tensor::new(&[7], f32s(&case[key])));
        close(name, &descend(options, start, &weights, 5), &f64s(&case["end"]), 1e-5);
    }
}

#[test]
fn one_step_by_hand() {
    // g = 3·2² = 12 for θ = 2 and weight 3; with λ = ½ it is 13.
    let after = |momentum, weight_decay| {
        let options = SgdOptions { learning_rate: 0.125, momentum, weight_decay };
        descend(options, Tensor::new(&[1], vec![2.0]), &Tensor::new(&[1], vec![3.0]), 1)[0]
    };
    assert!((after(Momentum::None, 0.0) - 0.5).abs() < 1e-6);
    assert!((after(Momentum::None, 0.5) - 0.375).abs() < 1e-6);
    assert!((after(Momentum::Classical(0.5), 0.5) - 0.375).abs() < 1e-6);
    assert!((after(Momentum::Nesterov(0.5), 0.5) - (2.0 - 0.125 * 19.5)).abs() < 1e-6);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (start, weights) = (numbers(&[100_000], 1, [-1.0, 1.0]), numbers(&[100_000], 2, [-1.0, 1.0]));
    for momentum in [Momentum::None, Momentum::Classical(0.9), Momentum::Nesterov(0.9)] {
        let options = SgdOptions { learning_rate: 0.05, momentum, weight_decay: 0.01 };
        let end = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| descend(options, start.clone(), &weights, 3))
        };
        let one = end(1);
        assert!(one == end(2) && one == end(3), "{momentum:?}");
    }
}
