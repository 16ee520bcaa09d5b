//! A trace and the explorer in one HTML file: no server, no network, nothing beside it.
//!
//! Weights, queries and keys are halves (see `half.rs`); all other numbers are as in the JSON. Queries and keys are left
//! out where they would make the file larger than [`MOST_VECTORS`] numbers allow. The file's own policy forbids every request
//! and every script but its own.

use polyhead_attention::Filter;
use polyhead_inspect::export::{self, kind_name};
use polyhead_inspect::trace::Trace;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::ALL;
use crate::bundle::bundle;
use crate::half::base64_halves;
use crate::wire::Limits;

/// Numbers of queries and keys that are kept: 3.2 MB in the file.
pub const MOST_VECTORS: usize = 1_200_000;

/// The file, with the weights that `filter` lets through. `name` is what the model is called in it.
pub fn page(trace: &Trace, filter: &Filter, name: &str) -> String {
    let script = bundle("js/main.js");
    let styles = ALL.iter().filter(|asset| asset.path.ends_with(".css"));
    let style: String = styles.map(|asset| asset.text).collect();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:",
        hash(&script),
        hash(&style)
    );
    // `<` cannot stand in the script of JSON as itself: it could end it.
    let data = content(trace, filter, name).to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>Polyhead</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <script type=\"application/json\" id=\"trace\">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )
}

/// The trace in small numbers, and what the page shows of the model.
fn content(trace: &Trace, filter: &Filter, name: &str) -> Value {
    // Weights and vectors are put in below, as halves.
    let nothing = Filter { layers: Some(Vec::new()), ..Filter::default() };
    let bare = Trace { attentions: trace.attentions.clone(), vectors: Vec::new(), ..trace.clone() };
    let mut found: Value = serde_json::from_str(&export::json(&bare, &nothing)).expect("what was written as JSON");
    found["attention"] = trace
        .selected(filter)
        .iter()
        .map(|part| {
            let [rows, columns] = part.weights.first().map_or([0, 0], |own| [own.n_rows(), own.n_columns()]);
            let numbers = part.weights.iter().flat_map(|own| own.numbers());
            let entropy: Vec<f64> = part.weights.iter().map(|own| polyhead_inspect::entropy::entropy(own)).collect();
            json!({
                "kind": kind_name(part.site.kind), "layer": part.site.layer, "heads": part.heads, "entropy": entropy,
                "weights": { "shape": [part.heads.len(), rows, columns], "f16": base64_halves(numbers) },
            })
        })
        .collect();
    let size: usize = trace.vectors.iter().map(|own| own.query.data().len() + own.key.data().len()).sum();
    if size <= MOST_VECTORS {
        let array = |tensor: &polyhead_tensor::Tensor| {
            json!({ "shape": tensor.shape()[1..], "f16": base64_halves(tensor.data().iter()) })
        };
        let vectors = trace.vectors.iter().map(|own| {
            json!({
                "kind": kind_name(own.site.kind), "layer": own.site.layer, "heads": own.heads,
                "query": array(&own.query), "key": array(&own.key),
            })
        });
        found["vectors"] = vectors.collect();
    }
    let mut model = found["model"].clone();
    model["name"] = name.into();
    model["limits"] = json!(Limits::default());
    json!({ "model": model, "trace": found })
}

/// A hash as policies take it.
fn hash(text: &str) -> String {
    format!("sha256-{}", export::base64::base64(Sha256::digest(text).into_iter()))
}
