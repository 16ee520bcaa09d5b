//! Pointer networks: values and gradients of a hand-written PyTorch module, and laws of the search.

use polyhead_attention::{Capture, Pass};
use polyhead_models::PointerNetwork;
use polyhead_models::pointer::{AnswerRule, Glimpse, Orders, PointerConfig, SearchOptions};
use polyhead_random::Random;
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor};
use polyhead_text::lines::Lines;
use serde_json::Value;

use crate::outside::golden;

fn config(answer: AnswerRule) -> PointerConfig {
    PointerConfig {
        d_model: 6,
        glimpse: Glimpse::Additive,
        d_point: 2,
        offset: vec![0.5; 2],
        scale: vec![0.25; 2],
        answer,
        shortest: 3,
        ..PointerConfig::default()
    }
}

fn network(config: &PointerConfig) -> (PointerNetwork, Parameters) {
    let mut parameters = Parameters::default();
    let model = PointerNetwork::new(config, &mut parameters).unwrap();
    parameters.initialise(5);
    (model, parameters)
}

fn rows(counts: &[usize]) -> Vec<Vec<f32>> {
    let random = Random::new(9);
    let row = |(row, &count): (usize, &usize)| {
        (0..2 * count as u64).map(|at| random.stream(row as u64).uniform(at) as f32).collect()
    };
    counts.iter().enumerate().map(row).collect()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

/// Logits, loss and gradients equal those of `tests/golden/pointer/make.py`.
#[test]
fn equals_a_hand_written_pytorch_module() {
    let text = Lines::read_all(golden("pointer/pointer.json.gz")).unwrap();
    let golden: Value = serde_json::from_str(&text[0]).unwrap();
    for case in golden.as_array().unwrap() {
        let glimpse = if case["glimpse"] == true { Glimpse::Additive } else { Glimpse::None };
        let (offset, scale) = (vec![0.0; 2], vec![1.0; 2]);
        let config = PointerConfig { d_model: 5, glimpse, offset, scale, ..config(AnswerRule::Subset) };
        let (model, mut parameters) = network(&config);
        let ids: Vec<_> =
            parameters.declared().map(|(id, name, shape)| (id, name.to_owned(), shape.to_vec())).collect();
        for (id, name, shape) in &ids {
            parameters.set(*id, Tensor::new(shape, numbers(&case["parameters"][name.as_str()])));
        }
        let points: Vec<Vec<f32>> = case["points"].as_array().unwrap().iter().map(numbers).collect();
        let orders: Vec<Vec<u32>> = case["orders"]
            .as_array()
            .unwrap()
            .iter()
            .map(|order| numbers(order).into_iter().map(|at| at as u32).collect())
            .collect();
        let tape = Tape::training(1, 1);
        let capture = Capture::off();
        let pass = Pass::new(&tape, &parameters, &capture);
        let batch = model.points(points.iter().map(|row| Some(row.as_slice())), 4);
        let given: Vec<Option<&[u32]>> = orders.iter().map(|order| Some(order.as_slice())).collect();
        let orders = Orders::new(&given, 4, 4);
        let logits = model.forward(&pass, &batch, &orders).unwrap();
        let expected = numbers(&case["logits"]);
        for (index, (found, expected)) in logits.value().data().iter().zip(&expected).enumerate() {
            // Padding is −∞ here and a large negative number there.
            let is_padding = *expected < -1e8;
            assert!(
                if is_padding { *found == f32::NEG_INFINITY } else { (found - expected).abs() < 2e-6 },
                "{index}"
            );
        }
        let loss = model.loss(&pass, &batch, &orders).unwrap();
        let wanted = case["loss"].as_f64().unwrap();
        assert!((f64::from(loss.value().data()[0]) - wanted).abs() < 1e-6);
        let gradients = tape.backward(&loss);
        for (id, gradient) in gradients.parameters() {
            let (_, name, _) = ids.iter().find(|(own, ..)| *own == id).unwrap();
            let expected = numbers(&case["gradients"][name.as_str()]);
            for (found, expected) in gradient.data().iter().zip(&expected) {
                assert!((found - expected).abs() < 2e-6, "{name}: {found} {expected}");
            }
        }
    }
}

/// Every answer follows its rule, alone as in a batch, and a larger beam never finds a less probable one here.
#[test]
fn answers_keep_the_rule_and_do_not_depend_on_the_batch() {
    let inputs = rows(&[4, 1, 6, 3]);
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    for rule in [AnswerRule::Permutation, AnswerRule::Subset, AnswerRule::Triangles, AnswerRule::Free] {
        let (model, mut parameters) = network(&config(rule));
        for dtype in [None, Some(Dtype::Int8)] {
            if let Some(dtype) = dtype {
                parameters.prepare(dtype);
            }
            for beam_size in [1, 3] {
                let options = SearchOptions { beam_size };
                let together = model.search(&parameters, &inputs, options).unwrap();
                for (index, (input, found)) in inputs.iter().zip(&together).enumerate() {
                    let alone = model.search(&parameters, &[*input], options).unwrap();
                    assert_eq!(alone[0], *found, "{rule:?} {beam_size} {index}");
                    let count = input.len() / 2;
                    assert!((1..=beam_size).contains(&found.len()));
                    for answer in found {
                        let order = &answer.order;
                        let each = (0..order.len()).all(|at| rule.allows(&order[..at], order[at], count));
                        assert!(each && order.len() <= rule.longest(count), "{rule:?} {order:?}");
                        assert!(
                            rule.may_end(order, count, 3) || rule == AnswerRule::Triangles,
                            "{rule:?} {order:?}"
                        );
                    }
                    assert!(found.is_sorted_by(|a, b| a.log_probability >= b.log_probability));
                }
            }
        }
        assert!(model.search(&parameters, &inputs, SearchOptions { beam_size: 0 }).is_err());
        assert!(model.search(&parameters, &[&[]], SearchOptions::default()).is_err());
    }
}

/// With a beam that holds all answers, their probabilities add up to 1.
#[test]
fn probabilities_of_all_answers_add_up_to_one() {
    let (model, parameters) = network(&config(AnswerRule::Permutation));
    let inputs = rows(&[4]);
    let found = model.search(&parameters, &[&inputs[0]], SearchOptions { beam_size: 24 }).unwrap();
    assert_eq!(found[0].len(), 24);
    let sum: f64 = found[0].iter().map(|answer| answer.log_probability.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
}

/// NaN weights give an answer, not a hang or a panic.
#[test]
fn nan_weights_end_the_search() {
    let (model, mut parameters) = network(&config(AnswerRule::Permutation));
    let id = parameters.find("encoder.weight_hh").unwrap();
    parameters.value_mut(id).data_mut().fill(f32::NAN);
    let inputs = rows(&[4]);
    let found = model.search(&parameters, &[&inputs[0]], SearchOptions { beam_size: 2 }).unwrap();
    assert_eq!(found[0].len(), 1);
}
