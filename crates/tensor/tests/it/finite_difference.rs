//! Two checks of every operation: its values equal the equation in f64, and its gradients equal the central differences
//! of the equation, (f(x + h) − f(x − h)) / 2h, whose error of h² is far below f32. Then the law of this crate: the
//! same bits for any number of threads.

use polyhead_random::Random;
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Result, Tape, Tensor, Var};

/// Tolerance of values, relative to the largest: some roundings of f32.
pub(crate) const VALUE: f64 = 1e-5;
/// Tolerance of gradients, relative to the largest.
pub(crate) const GRADIENT: f64 = 1e-4;
/// Smallest scale of a relative error: zero has none.
const SMALLEST: f64 = 1e-2;
const H: f64 = 1e-5;

/// Values from −1 to 1, different for each stream.
pub(crate) fn numbers(len: usize, stream: u64) -> Vec<f32> {
    let random = Random::new(11).stream(stream);
    (0..len as u64).map(|index| (random.uniform(index) * 2.0 - 1.0) as f32).collect()
}

/// The same as a tensor.
pub(crate) fn tensor(shape: &[usize], stream: u64) -> Tensor {
    Tensor::new(shape, numbers(shape.iter().product(), stream))
}

/// A tensor for each shape, with consecutive streams.
pub(crate) fn tensors(shapes: &[&[usize]]) -> Vec<Tensor> {
    shapes.iter().zip(1..).map(|(shape, stream)| tensor(shape, stream)).collect()
}

pub(crate) fn wide(data: &[f32]) -> Vec<f64> {
    data.iter().copied().map(f64::from).collect()
}

pub(crate) fn bits(data: &[f32]) -> Vec<u32> {
    data.iter().map(|number| number.to_bits()).collect()
}

/// Fails unless all values differ by at most `tolerance` of the largest.
pub(crate) fn assert_close(name: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let scale = expected.iter().fold(SMALLEST, |largest, number| largest.max(number.abs()));
    for (index, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= tolerance * scale, "{name}[{index}]: found {found}, expected {expected}");
    }
}

/// Σ w·y with fixed w: a scalar whose gradient with respect to y has different entries.
pub(crate) fn weigh(tape: &Tape, y: &Var) -> Var {
    let len = y.value().len();
    let weights = Var::constant(tensor(&[1, len], 99));
    linear(tape, &y.reshaped(&[1, len]), &weights, None, LinearOptions::default()).unwrap()
}

fn weigh_wide(y: &[f64]) -> f64 {
    y.iter().zip(numbers(y.len(), 99)).map(|(y, weight)| y * f64::from(weight)).sum()
}

/// Central differences of `loss` by every value of every input.
pub(crate) fn differences(inputs: &[Vec<f64>], loss: impl Fn(&[Vec<f64>]) -> f64) -> Vec<Vec<f64>> {
    let mut inputs = inputs.to_vec();
    let mut result: Vec<Vec<f64>> = inputs.iter().map(|input| vec![0.0; input.len()]).collect();
    for side in 0..inputs.len() {
        for index in 0..inputs[side].len() {
            let old = inputs[side][index];
            let [above, below] = [old + H, old - H].map(|value| {
                inputs[side][index] = value;
                loss(&inputs)
            });
            inputs[side][index] = old;
            result[side][index] = (above - below) / (2.0 * H);
        }
    }
    result
}

/// The values of the operation and the gradients of its weighted sum, by input.
pub(crate) fn run(
    inputs: &[Tensor],
    fused: impl Fn(&Tape, &[Var]) -> Result<Var>,
) -> (Tensor, Vec<Option<Tensor>>) {
    let tape = Tape::training(5, 1);
    let vars: Vec<Var> = inputs.iter().map(|input| tape.input(input.clone())).collect();
    let y = fused(&tape, &vars).unwrap();
    let loss = weigh(&tape, &y);
    let gradients = tape.backward(&loss);
    (y.value().clone(), vars.iter().map(|var| gradients.of(var).cloned()).collect())
}

/// Values against the equation.
pub(crate) fn assert_values(
    name: &str,
    inputs: &[Tensor],
    fused: impl Fn(&Tape, &[Var]) -> Result<Var>,
    equation: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let inputs_wide: Vec<Vec<f64>> = inputs.iter().map(|input| wide(input.data())).collect();
    let (y, _) = run(inputs, fused);
    assert_close(name, y.data(), &equation(&inputs_wide), VALUE);
}

/// Values against the equation and gradients of every input against its central differences.
pub(crate) fn assert_values_and_gradients(
    name: &str,
    inputs: &[Tensor],
    fused: impl Fn(&Tape, &[Var]) -> Result<Var>,
    equation: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let inputs_wide: Vec<Vec<f64>> = inputs.iter().map(|input| wide(input.data())).collect();
    let (y, gradients) = run(inputs, fused);
    assert_close(name, y.data(), &equation(&inputs_wide), VALUE);
    let expected = differences(&inputs_wide, |inputs| weigh_wide(&equation(inputs)));
    for (side, (input, gradient)) in inputs.iter().zip(&gradients).enumerate() {
        let gradient = gradient.as_ref().unwrap_or_else(|| panic!("{name}: input {side} has no gradient"));
        assert_eq!(gradient.shape(), input.shape(), "{name}: gradient of input {side}");
        assert_close(&format!("{name}: d{side}"), gradient.data(), &expected[side], GRADIENT);
    }
}

/// Asserts that `work` returns the same in pools of 1, 2 and 3 threads.
pub(crate) fn assert_same_for_any_threads<T: PartialEq + Send>(work: impl Fn() -> T + Sync) {
    let [one, two, three] = [1, 2, 3]
        .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&work));
    assert!(one == two && one == three, "bits depend on the number of threads");
}

/// Asserts that values and all gradients have the same bits in pools of 1, 2 and 3 threads.
pub(crate) fn assert_threads_change_nothing(
    inputs: &[Tensor],
    fused: impl Fn(&Tape, &[Var]) -> Result<Var> + Sync,
) {
    assert_same_for_any_threads(|| {
        let (y, gradients) = run(inputs, &fused);
        let gradients: Vec<_> = gradients.iter().flatten().map(|gradient| bits(gradient.data())).collect();
        assert_eq!(gradients.len(), inputs.len());
        (bits(y.data()), gradients)
    });
}

/// True if every input has a gradient and all its values are zero.
pub(crate) fn all_zero(gradients: &[Option<Tensor>]) -> bool {
    gradients.iter().all(|gradient| gradient.as_ref().is_some_and(|g| g.data().iter().all(|&x| x == 0.0)))
}
