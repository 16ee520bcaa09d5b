//! Worked examples of attention from lectures, number by number.

use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Tape, Tensor, Var};

/// Attention of one head, without a batch, to the rows of `keys` and `values`; `scale` defaults to 1/√d.
fn attend(queries: &[&[f32]], keys: &[&[f32]], values: &[&[f32]], scale: Option<f32>) -> Vec<f32> {
    let [query, key, value] = [queries, keys, values]
        .map(|rows| Var::constant(Tensor::new(&[1, rows.len(), rows[0].len()], rows.concat())));
    let options = AttentionOptions { n_heads: 1, scale, ..Default::default() };
    attention(&Tape::inference(), &query, &key, &value, &options).unwrap().value().data().to_vec()
}

fn assert_near(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "found {found:?}, expected {expected:?}");
    }
}

/// Scores 112 and 96 with d_k = 64: divided by √64 they are 14 and 12, softmax gives 0.88 and 0.12, and the result is
/// 0.88 v₁ + 0.12 v₂.
#[test]
fn scores_112_and_96_with_64_values_per_key() {
    let mut query = [0.0; 64];
    query[0] = 16.0;
    let [mut first, mut second] = [[0.0; 64]; 2];
    (first[0], second[0]) = (7.0, 6.0); // 16·7 = 112, 16·6 = 96
    // Values whose first two elements are [1, 0] and [0, 1] show the weights; the third is any mixture.
    let [mut v1, mut v2] = [[0.0; 64]; 2];
    (v1[0], v2[1]) = (1.0, 1.0);
    (v1[2], v2[2]) = (5.0, -3.0);
    let found = attend(&[&query], &[&first, &second], &[&v1, &v2], None);
    assert_near(&found[..2], &[0.88, 0.12], 0.005);
    let exact = 1.0 / (1.0 + (-2_f32).exp()); // 14 − 12 = 2
    assert_near(&found[..2], &[exact, 1.0 - exact], 1e-6);
    assert_near(&found[2..3], &[5.0 * found[0] - 3.0 * found[1]], 1e-6);
}

const A: &[f32] = &[1.0, 0.0];
const B: &[f32] = &[0.0, 1.0];
const STRING: [&[f32]; 4] = [A, A, B, A];

/// The weights of each position of A A B A: attention to the four unit vectors. Keys are padded to their width.
fn weights(query: &[f32], scale: f32) -> Vec<f32> {
    let pad = |row: &[f32]| [row, &[0.0, 0.0]].concat();
    let keys = STRING.map(pad);
    let mut units = [[0.0; 4]; 4];
    (0..4).for_each(|place| units[place][place] = 1.0);
    attend(
        &[&pad(query)],
        &keys.each_ref().map(Vec::as_slice),
        &units.each_ref().map(<[f32; 4]>::as_slice),
        Some(scale),
    )
}

/// Query B has scores 0 0 1 0. With 3 in place of e, which is a scale of ln 3, the weights are 3⁰ 3⁰ 3¹ 3⁰ over their
/// sum 6, and the result is half A, half B.
#[test]
fn a_lookup_of_b_in_a_a_b_a_with_base_three() {
    let scale = 3_f32.ln();
    assert_near(&weights(B, scale), &[1.0 / 6.0, 1.0 / 6.0, 1.0 / 2.0, 1.0 / 6.0], 1e-6);
    assert_near(&attend(&[B], &STRING, &STRING, Some(scale)), &[0.5, 0.5], 1e-6);
}

/// A query ten times as long attends to B alone.
#[test]
fn a_sharp_lookup() {
    let query = [0.0, 10.0];
    for scale in [3_f32.ln(), 1.0] {
        assert_near(&weights(&query, scale), &[0.0, 0.0, 1.0, 0.0], 2e-4);
        assert_near(&attend(&[&query], &STRING, &STRING, Some(scale)), &[0.0, 1.0], 2e-4);
    }
}

/// Self-attention with W_Q = I and W_K = 10·I: S = E·(10·E)ᵀ = 10·E·Eᵀ, so each position mixes the positions of its own
/// letter.
#[test]
fn self_attention_with_keys_ten_times_as_long() {
    let tape = Tape::inference();
    let embeddings = Var::constant(Tensor::new(&[1, 4, 2], STRING.concat()));
    let [w_q, w_k] =
        [1.0, 10.0].map(|factor| Var::constant(Tensor::new(&[2, 2], vec![factor, 0.0, 0.0, factor])));
    let [query, key] = [&w_q, &w_k]
        .map(|weight| linear(&tape, &embeddings, weight, None, LinearOptions::default()).unwrap());
    // S itself, as a product: the queries through a linear layer whose weights are the keys.
    let scores = linear(&tape, &query, &key.reshaped(&[4, 2]), None, LinearOptions::default()).unwrap();
    let expected = [10., 10., 0., 10., 10., 10., 0., 10., 0., 0., 10., 0., 10., 10., 0., 10.];
    assert_eq!(scores.value().data(), expected);
    let options = AttentionOptions { n_heads: 1, scale: Some(1.0), ..Default::default() };
    let context = attention(&tape, &query, &key, &embeddings, &options).unwrap();
    let e10 = 10_f32.exp();
    let [at_a, at_b] = [3.0 * e10 / (3.0 * e10 + 1.0), e10 / (e10 + 3.0)];
    let expected = [[at_a, 1.0 - at_a], [at_a, 1.0 - at_a], [1.0 - at_b, at_b], [at_a, 1.0 - at_a]];
    assert_near(context.value().data(), expected.as_flattened(), 1e-6);
}
