//! Golden files: values and gradients computed by PyTorch (`tests/golden/make.py`).

use std::io::BufReader;

use flate2::read::GzDecoder;
use polyhead_tensor::{Parameters, Tensor};
use serde_json::Value;

/// Relative to the largest magnitude of a tensor, or to 0.01.
pub(crate) const TOLERANCE: f64 = 1e-5;

/// All cases of a kind.
pub(crate) fn cases(kind: &str) -> Vec<Value> {
    let file = GzDecoder::new(&include_bytes!("../golden/attention.json.gz")[..]);
    let all: Value = serde_json::from_reader(BufReader::new(file)).unwrap();
    let cases: Vec<Value> =
        all["cases"].as_array().unwrap().iter().filter(|case| case["kind"] == kind).cloned().collect();
    assert!(!cases.is_empty());
    cases
}

pub(crate) fn wide(array: &Value) -> Vec<f64> {
    array["data"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

pub(crate) fn tensor(array: &Value) -> Tensor {
    let shape = integers(&array["shape"]).unwrap();
    Tensor::new(&shape, wide(array).iter().map(|&number| number as f32).collect())
}

/// A list of integers; `None` if it is not a list.
pub(crate) fn integers(list: &Value) -> Option<Vec<usize>> {
    list.as_array().map(|list| list.iter().map(|number| number.as_u64().unwrap() as usize).collect())
}

/// Sets every declared parameter to its value in `inputs`; `name` maps our name to the file's.
pub(crate) fn fill(parameters: &mut Parameters, inputs: &Value, name: impl Fn(&str) -> String) {
    let declared: Vec<_> = parameters.declared().map(|(id, ours, _)| (id, name(ours))).collect();
    for (id, name) in declared {
        parameters.set(id, tensor(&inputs[&name]));
    }
}
