//! Safetensors: a JSON header with names, shapes and offsets, then the data (f32, little-endian). Tokens are in the metadata, as
//! JSON lists.

use polyhead_attention::Filter;
use serde_json::{Map, Value, json};

use super::arrays;
use crate::trace::Trace;

/// The bytes of a `.safetensors` file with the weights that pass `filter`.
pub fn safetensors(trace: &Trace, filter: &Filter) -> Vec<u8> {
    let mut metadata = Map::new();
    let list = |value: Value| Value::String(value.to_string());
    for (name, texts) in arrays::tokens(trace) {
        metadata.insert(name, list(json!(texts)));
    }
    let (mut header, mut numbers) = (Map::new(), Vec::new());
    for weights in arrays::weights(trace, filter) {
        let bytes = weights.bytes();
        let offsets = [numbers.len(), numbers.len() + bytes.len()];
        let entry = json!({ "dtype": "F32", "shape": weights.shape, "data_offsets": offsets });
        header.insert(weights.name.into(), entry);
        metadata.insert(format!("{}_layers", weights.name), list(json!(weights.layers)));
        metadata.insert(format!("{}_heads", weights.name), list(json!(weights.heads)));
        numbers.extend(bytes);
    }
    if let Some(states) = trace.encoder().and_then(|found| found.states.as_ref()) {
        let (shape, own) = arrays::hidden_states(states);
        let offsets = [numbers.len(), numbers.len() + 4 * own.len()];
        header.insert(
            "hidden_states".into(),
            json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets }),
        );
        numbers.extend(own.iter().flat_map(|number| number.to_le_bytes()));
    }
    header.insert("__metadata__".into(), Value::Object(metadata));
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &numbers].concat()
}
