//! Entries of a trace's `attention` and `vectors`, with arrays as f32 (field `base64`) or f16 (field `f16`), both in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_attention::Site;
use polyhead_attention::vectors::Vectors;
use polyhead_inspect::entropy::entropy;
use polyhead_inspect::matrix::Matrix;
use polyhead_tensor::Tensor;
use serde_json::{Value, json};

use crate::half::f16_bits;

/// Dtype of the packed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackedDtype {
    F32,
    F16,
}

/// The weights of some heads at an attention site.
pub(crate) fn attention(site: Site, heads: &[usize], weights: &[&Matrix], dtype: PackedDtype) -> Value {
    let [rows, columns] = weights.first().map_or([0, 0], |own| [own.n_rows(), own.n_columns()]);
    let entropies: Vec<f64> = weights.iter().map(|own| entropy(own)).collect();
    let all = weights.iter().flat_map(|own| own.numbers());
    json!({
        "kind": site.kind.name, "layer": site.layer, "heads": heads, "entropy": entropies,
        "weights": array(&[heads.len(), rows, columns], all, dtype),
    })
}

/// The queries and keys at an attention site, of one sentence.
pub(crate) fn vectors(vectors: &Vectors, dtype: PackedDtype) -> Value {
    let tensor = |tensor: &Tensor| array(&tensor.shape()[1..], tensor.data().iter(), dtype);
    json!({
        "kind": vectors.site.kind.name, "layer": vectors.site.layer, "heads": vectors.heads,
        "query": tensor(&vectors.query), "key": tensor(&vectors.key),
    })
}

/// A matrix.
pub(crate) fn matrix(matrix: &Matrix, dtype: PackedDtype) -> Value {
    array(&[matrix.n_rows(), matrix.n_columns()], matrix.numbers().iter(), dtype)
}

fn array<'a>(shape: &[usize], all: impl Iterator<Item = &'a f32>, dtype: PackedDtype) -> Value {
    match dtype {
        PackedDtype::F32 => {
            let bytes: Vec<u8> = all.flat_map(|number| number.to_le_bytes()).collect();
            json!({ "shape": shape, "base64": STANDARD.encode(bytes) })
        }
        PackedDtype::F16 => {
            let bytes: Vec<u8> = all.flat_map(|number| f16_bits(*number).to_le_bytes()).collect();
            json!({ "shape": shape, "f16": STANDARD.encode(bytes) })
        }
    }
}
