//! Additive scores of all pairs of query and key, s = vᵀ·tanh(q + k) (Bahdanau, Cho & Bengio 2015), without storing
//! batch × q_len × k_len × d activations.
//!
//! tanh(q + k) = 1 − 2r with r = 1/(e²ᑫ·e²ᵏ + 1): the exponentials are taken once per query and once per key, and a pair
//! costs a product, a sum and a quotient. q and k are limited to ±40, where tanh has long been constant for any sum that
//! is not itself a difference of such numbers. The backward pass computes r again: with g the gradient of s and w =
//! 4·r·(1 − r), the slope of tanh, dq = Σ_k g·v∘w, dk = Σ_q g·v∘w, dv = Σ g·(1 − 2r).

use rayon::prelude::*;

use crate::error::shape;
use crate::lanes::{self, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Largest magnitude of a query's or key's component.
const LIMIT: f32 = 40.0;

/// Query (batch × q_len × d), key (batch × k_len × d), both projected, and v (d) → batch × q_len × k_len.
///
/// # Errors
/// If the shapes do not fit together.
pub fn additive_scores(tape: &Tape, query: &Var, key: &Var, vector: &Var) -> Result<Var> {
    let sizes = check(query, key, vector)?;
    on_gpu!(query.value() => Ok(crate::cuda::ops::additive::additive_scores(tape, [query, key, vector], sizes)));
    let [batch, q_len, k_len, d] = sizes;
    let [queries, keys] = [query, key].map(|side| exponentials(side.value()));
    let mut scores = Tensor::uninit(&[batch, q_len, k_len]);
    let (q, k, v) = (queries.data(), keys.data(), vector.value().data());
    let rows = (1 << 14) / (k_len * d).max(1);
    let block = rows.clamp(1, q_len.max(1));
    if k_len > 0 {
        let work = |(index, out): (usize, &mut [f32])| {
            for (offset, out) in out.chunks_exact_mut(k_len).enumerate() {
                let row = index * block + offset;
                let keys = &k[row / q_len * k_len * d..][..k_len * d];
                score_row(out, &q[row * d..(row + 1) * d], keys, v);
            }
        };
        scores.data_mut().par_chunks_mut(block * k_len).enumerate().for_each(work);
    }
    let saved = AdditiveSaved {
        nodes: [query, key, vector].map(Var::node_only),
        queries,
        keys,
        vector: vector.value().clone(),
    };
    Ok(tape.record(scores, &[query, key, vector], move |gradient, gradients| {
        saved.backward(gradient, gradients);
    }))
}

/// Batch, q_len, k_len and d.
fn check(query: &Var, key: &Var, vector: &Var) -> Result<[usize; 4]> {
    let &[batch, q_len, d] = query.shape() else {
        return shape("additive", "query", query.shape(), "batch × q_len × d");
    };
    let &[_, k_len, _] = key.shape() else {
        return shape("additive", "key", key.shape(), "batch × k_len × d");
    };
    if key.shape() != [batch, k_len, d] || d == 0 {
        return shape(
            "additive",
            "key",
            key.shape(),
            format!("[{batch}, k_len, {d}] for a query of {:?}", query.shape()),
        );
    }
    if vector.shape() != [d] {
        return shape("additive", "vector", vector.shape(), format!("[{d}]"));
    }
    Ok([batch, q_len, k_len, d])
}

/// e²ˣ.
fn exponentials(x: &Tensor) -> Tensor {
    let mut out = Tensor::uninit(x.shape());
    let x = x.data();
    parallel::elements(out.data_mut(), |start, out| double_exp(out, &x[start..start + out.len()]));
    out
}

struct AdditiveSaved {
    nodes: [Var; 3],
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
}

impl AdditiveSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let Self { nodes: [query, key, vector], queries, keys, vector: v } = self;
        let &[batch, q_len, k_len] = gradient.shape() else { unreachable!("the shape of the scores") };
        let d = v.len();
        let mut of_query = Tensor::uninit(&[batch, q_len, d]);
        let mut of_key = Tensor::zeros(&[batch, k_len, d]);
        // Σ g·(1 − 2r) of each sentence, added up in their order.
        let mut of_vector = Tensor::zeros(&[batch, d]);
        let (q, k, g) = (queries.data(), keys.data(), gradient.data());
        let parts = of_query.data_mut().par_chunks_mut((q_len * d).max(1));
        let parts = parts.zip(of_key.data_mut().par_chunks_mut((k_len * d).max(1)));
        let parts = parts.zip(of_vector.data_mut().par_chunks_mut(d)).enumerate();
        parts.for_each(|(sentence, ((of_query, of_key), of_vector))| {
            let keys = &k[sentence * k_len * d..][..k_len * d];
            for (row, of_query) in of_query.chunks_exact_mut(d).enumerate() {
                let at = sentence * q_len + row;
                let sides = [&q[at * d..(at + 1) * d], keys, v.data(), &g[at * k_len..(at + 1) * k_len]];
                score_row_back(sides, of_query, of_key, of_vector);
            }
        });
        gradients.add(query, &of_query);
        gradients.add(key, &of_key);
        gradients.update(vector, |out, output| super::linear::sum_rows(out, of_vector.data(), output));
    }
}

vectorised! {
    fn double_exp(out: &mut [f32], x: &[f32]) {
        for (out, &x) in out.iter_mut().zip(x) {
            // Comparisons and not `clamp`: NaN stays NaN.
            let limited = if x > LIMIT { LIMIT } else { x };
            let limited = if limited < -LIMIT { -LIMIT } else { limited };
            *out = lanes::exp(2.0 * limited);
        }
    }
}

vectorised! {
    fn score_row(out: &mut [f32], query: &[f32], keys: &[f32], vector: &[f32]) {
        for (out, key) in out.iter_mut().zip(keys.chunks_exact(query.len())) {
            *out = lanes::sum3(query, key, vector, |q, k, v| v * (1.0 - 2.0 / (q.mul_add(k, 1.0))));
        }
    }
}

vectorised! {
    /// The gradients of one query; those of keys and vector are added to.
    fn score_row_back(sides: [&[f32]; 4], of_query: &mut [f32], of_keys: &mut [f32], of_vector: &mut [f32]) {
        let [query, keys, vector, g] = sides;
        let d = of_query.len();
        let (query, vector, of_vector) = (&query[..d], &vector[..d], &mut of_vector[..d]);
        of_query.fill(0.0);
        for ((key, of_key), &g) in keys.chunks_exact(d).zip(of_keys.chunks_exact_mut(d)).zip(g) {
            // Padding and masked keys have no gradient.
            if g == 0.0 {
                continue;
            }
            for j in 0..d {
                let r = 1.0 / query[j].mul_add(key[j], 1.0);
                let slope = g * vector[j] * (4.0 * r * (1.0 - r));
                of_query[j] += slope;
                of_key[j] += slope;
                of_vector[j] += g * (1.0 - 2.0 * r);
            }
        }
    }
}
