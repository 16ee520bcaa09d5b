//! The reference attention: worked examples, masks, gradients, agreement with the fused kernel.

use polyhead_attention::attend::{attend, mix, weights};
use polyhead_attention::score::{Dot, ScaledDot};
use polyhead_attention::{Capture, Pass};
use polyhead_tensor::ops::attention::{AttentionOptions, Direction, attention};
use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::gradient::{assert_close, assert_equation, random_tensor, run, wide};

/// The string A A B A with A = [1, 0] and B = [0, 1].
fn string() -> Var {
    Var::constant(Tensor::new(&[1, 4, 2], vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]))
}

fn with_pass<T>(work: impl FnOnce(&Pass<'_>) -> T) -> T {
    let (tape, parameters, capture) = (Tape::inference(), Parameters::default(), Capture::off());
    work(&Pass::new(&tape, &parameters, &capture))
}

#[test]
fn scaled_scores_of_112_and_96() {
    with_pass(|pass| {
        let query = Var::constant(Tensor::new(&[1, 1, 64], vec![2.0; 64]));
        let key = Var::constant(Tensor::new(&[1, 2, 64], [[0.875; 64], [0.75; 64]].concat()));
        let products = Dot.scores(pass, &query, &key).unwrap();
        assert_eq!(products.value().data(), [112.0, 96.0]);
        let scores = ScaledDot.scores(pass, &query, &key).unwrap();
        assert_eq!(scores.value().data(), [14.0, 12.0]);
        let values = Var::constant(Tensor::new(&[1, 2, 2], vec![1.0, 0.0, 0.0, 1.0]));
        let (context, weights) = attend(pass.tape, &scores, &values, None).unwrap();
        assert_close("weights", weights.value().data(), &[0.880_797, 0.119_203], 1e-5);
        assert_close("0.88 v₁ + 0.12 v₂", context.value().data(), &[0.880_797, 0.119_203], 1e-5);
    });
}

#[test]
fn a_query_for_b_attends_to_b_in_a_a_b_a() {
    with_pass(|pass| {
        let attend_from = |query: [f32; 2], base: f32| {
            let query = Var::constant(Tensor::new(&[1, 1, 2], query.to_vec()));
            let scores = scale(pass.tape, &Dot.scores(pass, &query, &string()).unwrap(), base.ln());
            attend(pass.tape, &scores, &string(), None).unwrap()
        };
        // 3ˢ in place of eˢ: scores times ln 3.
        let (context, weights) = attend_from([0.0, 1.0], 3.0);
        let sixth = 1.0 / 6.0;
        assert_close("weights", weights.value().data(), &[sixth, sixth, 0.5, sixth], 1e-6);
        assert_close("context", context.value().data(), &[0.5, 0.5], 1e-6);
        let (context, weights) = attend_from([0.0, 10.0], std::f32::consts::E);
        assert_close("sharp weights", weights.value().data(), &[0.0, 0.0, 1.0, 0.0], 2e-4);
        assert_close("sharp context", context.value().data(), &[0.0, 1.0], 2e-4);
        // A query of zeros averages.
        let (context, _) = attend_from([0.0, 0.0], 3.0);
        assert_eq!(context.value().data(), [0.75, 0.25]);
    });
}

#[test]
fn self_attention_finds_the_same_letter() {
    with_pass(|pass| {
        let identity = |factor: f32| Var::constant(Tensor::new(&[2, 2], vec![factor, 0.0, 0.0, factor]));
        let project = |weight: &Var| matmul(pass.tape, &string(), weight, MatmulOptions::default()).unwrap();
        let scores = Dot.scores(pass, &project(&identity(1.0)), &project(&identity(10.0))).unwrap();
        // S = 10·E·Eᵀ: 10 where the letters are the same.
        let letters = [0, 0, 1, 0];
        let expected: Vec<f32> =
            (0..16).map(|at| if letters[at / 4] == letters[at % 4] { 10.0 } else { 0.0 }).collect();
        assert_eq!(scores.value().data(), expected);
        let (context, _) = attend(pass.tape, &scores, &string(), None).unwrap();
        assert_close("context", context.value().data(), &wide(string().value()), 2e-4);
    });
}

/// Softmax over the allowed keys, then the weighted sum, in f64.
fn equation(scores: &[f64], values: &[f64], allowed: &[bool], [q_len, k_len, d]: [usize; 3]) -> Vec<f64> {
    let mut context = Vec::new();
    for (row, scores) in scores.chunks(k_len).enumerate() {
        let allowed = allowed[(row * k_len) % allowed.len()..].iter().take(k_len);
        let parts: Vec<f64> =
            scores.iter().zip(allowed).map(|(s, &allowed)| if allowed { s.exp() } else { 0.0 }).collect();
        let total: f64 = parts.iter().sum();
        let values = &values[row / q_len * k_len * d..];
        let mixed = |column: usize| -> f64 {
            parts.iter().enumerate().map(|(k, part)| part * values[k * d + column]).sum()
        };
        context.extend((0..d).map(|column| if total == 0.0 { 0.0 } else { mixed(column) / total }));
    }
    context
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gradients_match_finite_differences(
        q_len in 1_usize..4, k_len in 1_usize..5, shared in prop::bool::ANY, stream in 0_u64..1000,
    ) {
        let (batch, d) = (2, 3);
        let inputs = [random_tensor(&[batch, q_len, k_len], stream), random_tensor(&[batch, k_len, d], stream + 1)];
        let count = if shared { q_len * k_len } else { batch * q_len * k_len };
        let allowed: Vec<bool> = random_tensor(&[count], stream + 2).data().iter().map(|&x| x > -0.2).collect();
        assert_equation(
            "attend",
            &Parameters::default(),
            &inputs,
            |pass, vars| attend(pass.tape, &vars[0], &vars[1], Some(&allowed)).unwrap().0,
            |all| equation(&all[0], &all[1], &allowed, [q_len, k_len, d]),
        );
    }
}

#[test]
fn a_fully_masked_query_has_zero_context_and_zero_gradient() {
    let inputs = [random_tensor(&[1, 2, 3], 1), random_tensor(&[1, 3, 2], 2)];
    let allowed = [false, false, false, true, true, false];
    let upstream = [random_tensor(&[1, 2, 2], 3), random_tensor(&[1, 2, 3], 4)];
    let found = run(&Parameters::default(), &inputs, &upstream, |pass, vars| {
        let (context, weights) = attend(pass.tape, &vars[0], &vars[1], Some(&allowed)).unwrap();
        vec![context, weights]
    });
    assert_eq!(found.outputs[0].data()[..2], [0.0; 2]);
    assert_eq!(found.outputs[1].data()[..3], [0.0; 3]);
    assert_eq!(found.inputs[0].data()[..3], [0.0; 3]);
    // A masked key: no weight, no gradient for its score and value.
    assert_eq!(found.outputs[1].data()[5], 0.0);
    assert_eq!(found.inputs[0].data()[5], 0.0);
    assert_eq!(found.inputs[1].data()[4..], [0.0; 2]);
    assert!(found.inputs[0].data()[3] != 0.0 && found.inputs[1].data()[0] != 0.0);
}

#[test]
fn the_fused_kernel_agrees_with_the_reference() {
    let inputs = [random_tensor(&[2, 5, 6], 1), random_tensor(&[2, 5, 6], 2), random_tensor(&[2, 5, 6], 3)];
    let upstream = [random_tensor(&[2, 5, 6], 4)];
    let causal: Vec<bool> = (0..25).map(|at| at % 5 <= at / 5).collect();
    let plain = run(&Parameters::default(), &inputs, &upstream, |pass, vars| {
        let scores = ScaledDot.scores(pass, &vars[0], &vars[1]).unwrap();
        vec![attend(pass.tape, &scores, &vars[2], Some(&causal)).unwrap().0]
    });
    let options =
        AttentionOptions { n_heads: 1, direction: Direction::Causal, ..AttentionOptions::default() };
    let fused = run(&Parameters::default(), &inputs, &upstream, |pass, vars| {
        vec![attention(pass.tape, &vars[0], &vars[1], &vars[2], &options).unwrap()]
    });
    assert_close("context", plain.outputs[0].data(), &wide(&fused.outputs[0]), 1e-5);
    for (plain, fused) in plain.inputs.iter().zip(&fused.inputs) {
        assert_close("gradient", plain.data(), &wide(fused), 1e-5);
    }
}

#[test]
fn mismatched_shapes_are_named() {
    let tape = Tape::inference();
    let zeros = |shape: &[usize]| Var::constant(Tensor::zeros(shape));
    let message = weights(&tape, &zeros(&[2, 3, 4]), Some(&[true; 8])).unwrap_err().to_string();
    assert_eq!(message, "weights: allowed has shape [8], expected [2, 3, 4] or [3, 4], as the scores");
    assert!(weights(&tape, &zeros(&[4]), None).is_err());
    let message = mix(&tape, &zeros(&[2, 3, 4]), &zeros(&[2, 5, 6])).unwrap_err().to_string();
    assert_eq!(
        message,
        "mix: values has shape [2, 5, 6], expected … × k_len × d_value for weights of [2, 3, 4]"
    );
    assert!(mix(&tape, &zeros(&[2, 3, 4]), &zeros(&[3, 4, 6])).is_err());
}
