//! Gradients by central differences, (f(x + h) − f(x − h))/2h of an equation in f64, and the comparison of values.

use polyhead_attention::{Capture, Pass};
use polyhead_random::Random;
use polyhead_tensor::ops::elementwise::{add, mul};
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{ParameterId, Parameters, Tape, Tensor, Var};

/// Uniform random values in [−1, 1), different for each stream.
pub(crate) fn random_tensor(shape: &[usize], stream: u64) -> Tensor {
    let random = Random::new(11).stream(stream);
    let len = shape.iter().product::<usize>() as u64;
    Tensor::new(shape, (0..len).map(|index| (random.uniform(index) * 2.0 - 1.0) as f32).collect())
}

pub(crate) fn wide(tensor: &Tensor) -> Vec<f64> {
    tensor.data().iter().copied().map(f64::from).collect()
}

/// Fails unless all errors are at most `tolerance` times the largest magnitude.
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-2_f64, |largest, number| largest.max(number.abs()));
    for (index, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= tolerance * scale, "{what}[{index}]: found {found}, expected {expected}");
    }
}

/// The outputs of a layer, and the gradients of Σ upstream · outputs with respect to inputs and parameters.
pub(crate) struct Run {
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) parameters: Vec<Tensor>,
}

/// Runs `layer` in training mode; `upstream` holds a weight for every element of every output.
pub(crate) fn run(
    parameters: &Parameters,
    inputs: &[Tensor],
    upstream: &[Tensor],
    layer: impl Fn(&Pass<'_>, &[Var]) -> Vec<Var>,
) -> Run {
    let (tape, capture) = (Tape::training(1, 1), Capture::off());
    let pass = Pass::new(&tape, parameters, &capture);
    let vars: Vec<Var> = inputs.iter().map(|input| tape.input(input.clone())).collect();
    let outputs = layer(&pass, &vars);
    let mut loss = Var::constant(Tensor::scalar(0.0));
    for (output, upstream) in outputs.iter().zip(upstream) {
        let weighed = mul(&tape, output, &Var::constant(upstream.reshaped(output.shape()))).unwrap();
        loss = add(&tape, &loss, &sum(&tape, &weighed, Over::All).unwrap()).unwrap();
    }
    let ids: Vec<ParameterId> = parameters.declared().map(|(id, ..)| id).collect();
    let leaves: Vec<Var> = ids.iter().map(|&id| pass.parameter(id)).collect();
    let gradients = tape.backward(&loss);
    let of = |var: &Var| gradients.of(var).map_or_else(|| Tensor::zeros(var.shape()), Clone::clone);
    Run {
        outputs: outputs.iter().map(|output| output.value().clone()).collect(),
        inputs: vars.iter().map(of).collect(),
        parameters: leaves.iter().map(of).collect(),
    }
}

/// The law of every layer: its values match the equation in f64, its gradients the finite differences of the equation.
///
/// The equation takes the inputs and then the parameters, in order.
pub(crate) fn assert_equation(
    what: &str,
    parameters: &Parameters,
    inputs: &[Tensor],
    layer: impl Fn(&Pass<'_>, &[Var]) -> Var,
    equation: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let mut exact: Vec<Vec<f64>> =
        inputs.iter().chain(parameters.iter().map(|(.., value)| value)).map(wide).collect();
    let expected = equation(&exact);
    let upstream = random_tensor(&[expected.len()], 99);
    let found =
        run(parameters, inputs, std::slice::from_ref(&upstream), |pass, vars| vec![layer(pass, vars)]);
    assert_close(what, found.outputs[0].data(), &expected, 1e-5);
    let weights = wide(&upstream);
    let loss = |all: &[Vec<f64>]| -> f64 { equation(all).iter().zip(&weights).map(|(y, w)| y * w).sum() };
    for (side, gradient) in found.inputs.iter().chain(&found.parameters).enumerate() {
        let mut differences = Vec::with_capacity(gradient.len());
        for index in 0..gradient.len() {
            let here = exact[side][index];
            let [above, below] = [here + 1e-5, here - 1e-5].map(|number| {
                exact[side][index] = number;
                loss(&exact)
            });
            exact[side][index] = here;
            differences.push((above - below) / 2e-5);
        }
        assert_close(&format!("{what}: gradient {side}"), gradient.data(), &differences, 1e-4);
    }
}
