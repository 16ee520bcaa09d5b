//! Entries of a trace's `attention` and `vectors`, with their numbers whole or as halves: `base64` or `f16` in an array.

use polyhead_attention::Site;
use polyhead_attention::vectors::Vectors;
use polyhead_inspect::entropy::entropy;
use polyhead_inspect::export::base64;
use polyhead_inspect::matrix::Matrix;
use polyhead_tensor::Tensor;
use serde_json::{Value, json};

use crate::half::base64_halves;

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// As f32.
    Whole,
    /// As f16.
    Halves,
}

/// The weights of some heads of an attention.
pub(crate) fn attention(site: Site, heads: &[usize], weights: &[&Matrix], numbers: Numbers) -> Value {
    let [rows, columns] = weights.first().map_or([0, 0], |own| [own.n_rows(), own.n_columns()]);
    let entropies: Vec<f64> = weights.iter().map(|own| entropy(own)).collect();
    let all = weights.iter().flat_map(|own| own.numbers());
    json!({
        "kind": site.kind.name, "layer": site.layer, "heads": heads, "entropy": entropies,
        "weights": array(&[heads.len(), rows, columns], all, numbers),
    })
}

/// The queries and keys of an attention of one sentence.
pub(crate) fn vectors(vectors: &Vectors, numbers: Numbers) -> Value {
    let tensor = |tensor: &Tensor| array(&tensor.shape()[1..], tensor.data().iter(), numbers);
    json!({
        "kind": vectors.site.kind.name, "layer": vectors.site.layer, "heads": vectors.heads,
        "query": tensor(&vectors.query), "key": tensor(&vectors.key),
    })
}

fn array<'a>(shape: &[usize], all: impl Iterator<Item = &'a f32>, numbers: Numbers) -> Value {
    match numbers {
        Numbers::Whole => {
            json!({ "shape": shape, "base64": base64::of_floats(&all.copied().collect::<Vec<f32>>()) })
        }
        Numbers::Halves => json!({ "shape": shape, "f16": base64_halves(all) }),
    }
}
