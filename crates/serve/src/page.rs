//! A trace and the explorer in one HTML file: no server, no network, nothing beside it.
//!
//! Weights, queries, keys and the similarities of states are f16 (see `half.rs`); all other numbers are as in the JSON. Queries and keys are omitted if
//! they have more than [`MAX_VECTOR_NUMBERS`] numbers. The file's content security policy forbids every request, and every
//! script but its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_attention::Filter;
use polyhead_inspect::export;
use polyhead_inspect::trace::Trace;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::ALL;
use crate::bundle::bundle;
use crate::packed::{self, PackedDtype};
use crate::wire::ExplorerLimits;

/// Maximum numbers of queries and keys in the file: 3.2 MB.
pub const MAX_VECTOR_NUMBERS: usize = 1_200_000;

/// The HTML file, with the weights that `filter` selects; `name` is the displayed name of the model.
pub fn page(trace: &Trace, filter: &Filter, name: &str) -> String {
    file("js/main.js", "trace", &content(trace, filter, name))
}

/// The HTML file of a comparison of words in context, the JSON of [`polyhead_inspect::states::json`].
pub fn comparison_page(comparison: &Value, name: &str) -> String {
    file("js/comparison_page.js", "comparison", &json!({ "name": name, "comparison": comparison }))
}

/// A file with the script of `entry`, and its data in an element named `id`.
fn file(entry: &str, id: &str, content: &Value) -> String {
    let script = bundle(entry);
    let styles = ALL.iter().filter(|asset| asset.extension() == "css");
    let style: String = styles.map(|asset| asset.text).collect();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:",
        hash(&script),
        hash(&style)
    );
    // A literal `<` could end the script element that holds the JSON.
    let data = content.to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>Polyhead</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <script type=\"application/json\" id=\"{id}\">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )
}

/// The trace with f16 arrays, and the description of the model.
fn content(trace: &Trace, filter: &Filter, name: &str) -> Value {
    // Weights and vectors are added below, as f16.
    let no_weights = Filter { layers: Some(Vec::new()), ..Filter::default() };
    let bare = Trace { vectors: Vec::new(), ..trace.clone() };
    let mut found: Value = serde_json::from_str(&export::json(&bare, &no_weights)).expect("valid JSON");
    let parts = trace.selected(filter);
    let parts = parts.iter();
    found["attention"] = parts
        .map(|part| packed::attention(part.site, &part.heads, &part.weights, PackedDtype::F16))
        .collect();
    let size: usize = trace.vectors.iter().map(|own| own.query.data().len() + own.key.data().len()).sum();
    if size <= MAX_VECTOR_NUMBERS {
        found["vectors"] = trace.vectors.iter().map(|own| packed::vectors(own, PackedDtype::F16)).collect();
    }
    let states = trace.encoder().and_then(|own| own.states.as_ref()).filter(|_| !found["states"].is_null());
    if let Some((states, side)) = states.zip(trace.sides.first()) {
        let pack = |matrix: &_| packed::matrix(matrix, PackedDtype::F16);
        found["states"] = export::states(states, &export::with_text(side), pack);
    }
    let mut model = found["model"].clone();
    model["name"] = name.into();
    model["limits"] = json!(ExplorerLimits::default());
    model["sites"] = found["sites"].clone();
    json!({ "model": model, "trace": found })
}

/// A hash for a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}
