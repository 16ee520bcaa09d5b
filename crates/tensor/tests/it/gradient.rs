//! Checks of operations: against an f64 reference and its central differences, against PyTorch's results, and for the
//! same bits on any number of threads.

use polyhead_random::Random;
use polyhead_tensor::ops::elementwise::mul;
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{Tape, Tensor, Var};

/// Random numbers from `low` to `high`.
pub(crate) fn numbers(shape: &[usize], stream: u64, [low, high]: [f64; 2]) -> Tensor {
    let random = Random::new(11).stream(stream);
    let len = shape.iter().product::<usize>() as u64;
    Tensor::new(shape, (0..len).map(|index| (low + random.uniform(index) * (high - low)) as f32).collect())
}

/// The output of an operation and the gradients of Σ weights·output.
pub(crate) fn run(
    inputs: &[Tensor],
    weights: Option<&Tensor>,
    operation: impl Fn(&Tape, &[Var]) -> Var,
) -> (Tensor, Vec<Tensor>) {
    let tape = Tape::training(1, 1);
    let vars: Vec<Var> = inputs.iter().map(|input| tape.input(input.clone())).collect();
    let output = operation(&tape, &vars);
    let weights = weights.map_or_else(|| numbers(output.shape(), 99, [-1.0, 1.0]), Clone::clone);
    let weighted = mul(&tape, &output, &Var::constant(weights.reshaped(output.shape()))).unwrap();
    let loss = sum(&tape, &weighted, Over::All).unwrap();
    let gradients = tape.backward(&loss);
    let of = |var: &Var| gradients.of(var).map_or_else(|| Tensor::zeros(var.shape()), Clone::clone);
    (output.value().clone(), vars.iter().map(of).collect())
}

/// Asserts that every value is within `tolerance` of the expected one, relative to it or to the mean magnitude,
/// whichever is larger.
pub(crate) fn close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: count");
    let mean = expected.iter().map(|number| number.abs()).sum::<f64>() / expected.len().max(1) as f64;
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs() / expected.abs().max(mean).max(1e-30);
        assert!(error <= tolerance, "{what}: {found} at {index}, expected {expected}, off by {error:e}");
    }
}

/// Compares values with an f64 reference to 1e-5, and gradients with the central differences of the reference to 1e-4.
///
/// The differences are taken in f64 with a step of 1e-5: they are accurate to about 1e-9, so the tolerance is for the
/// rounding of the f32 operation.
pub(crate) fn check(
    what: &str,
    inputs: &[Tensor],
    operation: impl Fn(&Tape, &[Var]) -> Var,
    reference: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let (output, gradients) = run(inputs, None, operation);
    let mut exact: Vec<Vec<f64>> =
        inputs.iter().map(|input| input.data().iter().map(|&number| f64::from(number)).collect()).collect();
    close(&format!("{what} value"), output.data(), &reference(&exact), 1e-5);
    let weights = numbers(output.shape(), 99, [-1.0, 1.0]);
    let loss = |inputs: &[Vec<f64>]| -> f64 {
        reference(inputs).iter().zip(weights.data()).map(|(number, &weight)| number * f64::from(weight)).sum()
    };
    for (side, gradient) in gradients.iter().enumerate() {
        let mut expected = Vec::new();
        for index in 0..gradient.len() {
            let (here, step) = (exact[side][index], 1e-5);
            exact[side][index] = here + step;
            let above = loss(&exact);
            exact[side][index] = here - step;
            let below = loss(&exact);
            exact[side][index] = here;
            expected.push((above - below) / (2.0 * step));
        }
        close(&format!("{what} gradient of input {side}"), gradient.data(), &expected, 1e-4);
    }
}

/// Asserts that values and gradients have the same bits on 1, 2 and 3 threads.
pub(crate) fn same_bits(what: &str, inputs: &[Tensor], operation: impl Fn(&Tape, &[Var]) -> Var + Sync) {
    let bits = |threads: usize| -> Vec<Vec<u32>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (output, gradients) = pool.install(|| run(inputs, None, &operation));
        let all = std::iter::once(&output).chain(&gradients);
        all.map(|tensor| tensor.data().iter().map(|number| number.to_bits()).collect()).collect()
    };
    let one = bits(1);
    assert!(one == bits(2) && one == bits(3), "{what}: bits depend on threads");
}

/// The content of a golden file.
pub(crate) fn unpacked(bytes: &[u8]) -> serde_json::Value {
    let file = flate2::read::GzDecoder::new(bytes);
    serde_json::from_reader(std::io::BufReader::new(file)).unwrap()
}

/// Compares every case of the golden file whose first word is in `names` with PyTorch to 1e-5.
pub(crate) fn golden(names: &[&str], operation: impl Fn(&str, &Tape, &[Var]) -> Var) {
    let file = unpacked(include_bytes!("../golden/ops/ops.json.gz"));
    let mut seen = std::collections::BTreeSet::new();
    for case in file["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let Some(&first) = names.iter().find(|first| name.split(' ').next() == Some(first)) else { continue };
        seen.insert(first);
        let inputs: Vec<Tensor> = case["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| Tensor::new(&shape(&input["shape"]), f32s(&input["data"])))
            .collect();
        let weights = Tensor::new(&shape(&case["shape"]), f32s(&case["weights"]));
        let (output, gradients) = run(&inputs, Some(&weights), |tape, vars| operation(name, tape, vars));
        assert_eq!(output.shape(), weights.shape(), "{name}: shape");
        close(name, output.data(), &f64s(&case["output"]), 1e-5);
        for (side, (gradient, expected)) in
            gradients.iter().zip(case["gradients"].as_array().unwrap()).enumerate()
        {
            close(&format!("{name} gradient {side}"), gradient.data(), &f64s(expected), 1e-5);
        }
    }
    assert_eq!(seen.len(), names.len(), "cases for all of {names:?}");
}

/// The sizes in a JSON array.
pub(crate) fn shape(value: &serde_json::Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect()
}

/// The numbers in a JSON array.
pub(crate) fn f64s(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The numbers in a JSON array, rounded.
pub(crate) fn f32s(value: &serde_json::Value) -> Vec<f32> {
    f64s(value).into_iter().map(|number| number as f32).collect()
}
