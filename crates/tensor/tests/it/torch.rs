//! Golden results of PyTorch: values, gradients and optimiser steps (`tests/golden/torch/make.py`).

use polyhead_tensor::ops::attention::{AttentionOptions, Direction, attention};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::ops::r_drop::{RDropOptions, r_drop};
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm};
use polyhead_tensor::{Indices, Parameters, Tape, Tensor, Var};
use serde_json::Value;

use crate::adam::given;
use crate::finite_difference::assert_close;
use crate::gradient::unpacked;

/// Tolerance relative to the largest value of an array.
const TOLERANCE: f64 = 1e-5;

fn cases(name: &str) -> Vec<Value> {
    let all = unpacked(include_bytes!("../golden/torch/torch.json.gz"));
    let cases: Vec<Value> =
        all["cases"].as_array().unwrap().iter().filter(|case| case["name"] == name).cloned().collect();
    assert!(!cases.is_empty());
    cases
}

fn wide(array: &Value) -> Vec<f64> {
    array["data"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn tensor(array: &Value) -> Tensor {
    let shape = integers(&array["shape"]).unwrap();
    Tensor::new(&shape, wide(array).iter().map(|&number| number as f32).collect())
}

fn integers(list: &Value) -> Option<Vec<usize>> {
    list.as_array().map(|list| list.iter().map(|number| number.as_u64().unwrap() as usize).collect())
}

fn ids(list: &Value) -> Indices {
    integers(list).unwrap().into_iter().map(|id| id as u32).collect()
}

fn number(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

/// Runs a case: `operation` looks up its inputs by name. The gradients are those of Σ upstream · output.
fn check(case: &Value, operation: impl Fn(&Tape, &dyn Fn(&str) -> Option<Var>) -> Var) {
    let tape = Tape::training(0, 0);
    let inputs: Vec<(&String, Var)> = case["inputs"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, array)| (name, tape.input(tensor(array))))
        .collect();
    let find = |wanted: &str| inputs.iter().find(|(name, _)| *name == wanted).map(|(_, var)| var.clone());
    let y = operation(&tape, &find);
    let named = |what: &str| format!("{} {}: {what}", case["name"], case["options"]);
    assert_eq!(y.value().shape(), tensor(&case["output"]).shape(), "{}", named("shape"));
    assert_close(&named("output"), y.value().data(), &wide(&case["output"]), TOLERANCE);
    let len = y.value().len();
    let upstream = Var::constant(tensor(&case["upstream"]).reshaped(&[1, len]));
    let loss = linear(&tape, &y.reshaped(&[1, len]), &upstream, None, LinearOptions::default()).unwrap();
    let gradients = tape.backward(&loss);
    for (name, var) in &inputs {
        let expected = wide(&case["gradients"][name.as_str()]);
        assert_close(&named(name), gradients.of(var).unwrap().data(), &expected, TOLERANCE);
    }
}

#[test]
fn linear_layers() {
    for case in cases("linear") {
        let activation = match case["options"]["activation"].as_str().unwrap() {
            "none" => Activation::None,
            "relu" => Activation::Relu,
            "gelu" => Activation::GeluTanh, // the script asks for approximate="tanh"
            "silu" => Activation::Silu,
            other => panic!("{other}"),
        };
        check(&case, |tape, find| {
            let [x, weight] = ["x", "weight"].map(|name| find(name).unwrap());
            let options = LinearOptions { activation, ..Default::default() };
            linear(tape, &x, &weight, find("bias").as_ref(), options).unwrap()
        });
    }
}

#[test]
fn layer_norms() {
    for case in cases("layer_norm") {
        check(&case, |tape, find| {
            let [x, gamma, beta] = ["x", "gamma", "beta"].map(|name| find(name).unwrap());
            let options = NormOptions::default();
            layer_norm(tape, &x, find("residual").as_ref(), [&gamma, &beta], options).unwrap()
        });
    }
}

#[test]
fn scaled_dot_product_attention() {
    for case in cases("attention") {
        let causal = case["options"]["causal"].as_bool().unwrap();
        let options = AttentionOptions {
            n_heads: case["options"]["n_heads"].as_u64().unwrap() as usize,
            direction: if causal { Direction::Causal } else { Direction::Both },
            key_lengths: (!case["options"]["key_lengths"].is_null())
                .then(|| ids(&case["options"]["key_lengths"])),
            ..Default::default()
        };
        check(&case, |tape, find| {
            let [query, key, value] = ["query", "key", "value"].map(|name| find(name).unwrap());
            attention(tape, &query, &key, &value, &options).unwrap()
        });
    }
}

#[test]
fn embeddings() {
    for case in cases("embedding") {
        let ids = ids(&case["options"]["ids"]);
        let length = case["options"]["length"].as_u64().unwrap() as usize;
        check(&case, |tape, find| {
            embedding(tape, &ids, length, &find("table").unwrap(), &EmbeddingOptions::default()).unwrap()
        });
    }
}

#[test]
fn cross_entropies() {
    for case in cases("cross_entropy") {
        let targets = ids(&case["options"]["targets"]);
        #[allow(clippy::needless_update, reason = "the options may grow")]
        let options = CrossEntropyOptions {
            label_smoothing: number(&case["options"]["smoothing"]),
            ignored_id: case["options"]["ignored"].as_u64().map(|id| id as u32),
            ..Default::default()
        };
        check(&case, |tape, find| cross_entropy(tape, &find("logits").unwrap(), &targets, options).unwrap());
    }
}

#[test]
fn r_drops() {
    for case in cases("r_drop") {
        let (options, targets) = (&case["options"], ids(&case["options"]["targets"]));
        let label_smoothing = number(&options["smoothing"]);
        let ignored_id = options["ignored"].as_u64().map(|id| id as u32);
        let cross_entropy = CrossEntropyOptions { label_smoothing, ignored_id };
        let given = RDropOptions { weight: number(&options["weight"]), cross_entropy };
        check(&case, |tape, find| {
            let found = r_drop(tape, &find("logits").unwrap(), &targets, given).unwrap();
            let expected = ["cross_entropy", "divergence"].map(|part| options[part].as_f64().unwrap());
            assert_close(
                "parts",
                &[found.cross_entropy, found.divergence].map(|part| part.data()[0]),
                &expected,
                TOLERANCE,
            );
            found.loss
        });
    }
}

#[test]
fn five_steps_of_adamw() {
    for case in cases("adamw") {
        let options = &case["options"];
        #[allow(clippy::needless_update, reason = "the options may grow")]
        let mut adam = Adam::new(AdamOptions {
            learning_rate: number(&options["lr"]),
            beta1: number(&options["betas"][0]),
            beta2: number(&options["betas"][1]),
            epsilon: number(&options["eps"]),
            weight_decay: number(&options["weight_decay"]),
            ..Default::default()
        });
        let mut parameters = Parameters::default();
        let id = parameters.add("parameter", tensor(&case["start"]));
        for step in 0..5 {
            let gradient = tensor(&case["gradients"][step]).data().to_vec();
            let gradients = given(&parameters, &[(id, gradient)]);
            adam.step(&mut parameters, &gradients);
            let expected = wide(&case["values"][step]);
            assert_close(&format!("step {step}"), parameters.value(id).data(), &expected, TOLERANCE);
        }
    }
}

#[test]
fn clip_grad_norm() {
    for case in cases("clip") {
        let mut parameters = Parameters::default();
        let before: Vec<Tensor> = case["before"].as_array().unwrap().iter().map(tensor).collect();
        let wanted: Vec<_> = ["first", "second"]
            .into_iter()
            .zip(before)
            .map(|(name, gradient)| {
                (parameters.add(name, Tensor::zeros(gradient.shape())), gradient.data().to_vec())
            })
            .collect();
        let mut gradients = given(&parameters, &wanted);
        let norm = clip_global_norm(&mut gradients, number(&case["max_norm"]));
        assert_close("norm", &[norm], &[case["norm"].as_f64().unwrap()], TOLERANCE);
        for (found, after) in gradients.parameters().zip(case["after"].as_array().unwrap()) {
            assert_close("clipped", found.1.data(), &wide(after), TOLERANCE);
        }
    }
}
