//! A trace and the explorer in one HTML file: no server, no network, nothing beside it.
//!
//! Weights, queries and keys are halves (see `half.rs`); all other numbers are as in the JSON. Queries and keys are left
//! out where they would make the file larger than [`MOST_VECTORS`] numbers allow. The file's own policy forbids every request
//! and every script but its own.

use polyhead_attention::Filter;
use polyhead_inspect::export;
use polyhead_inspect::trace::Trace;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::ALL;
use crate::bundle::bundle;
use crate::packed::{self, Numbers};
use crate::wire::Limits;

/// Numbers of queries and keys that are kept: 3.2 MB in the file.
pub const MOST_VECTORS: usize = 1_200_000;

/// The file, with the weights that `filter` lets through. `name` is what the model is called in it.
pub fn page(trace: &Trace, filter: &Filter, name: &str) -> String {
    let script = bundle("js/main.js");
    let styles = ALL.iter().filter(|asset| asset.extension() == "css");
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
    let bare = Trace { vectors: Vec::new(), ..trace.clone() };
    let mut found: Value =
        serde_json::from_str(&export::json(&bare, &nothing)).expect("what was written as JSON");
    let parts = trace.selected(filter);
    let parts = parts.iter();
    found["attention"] =
        parts.map(|part| packed::attention(part.site, &part.heads, &part.weights, Numbers::Halves)).collect();
    let size: usize = trace.vectors.iter().map(|own| own.query.data().len() + own.key.data().len()).sum();
    if size <= MOST_VECTORS {
        found["vectors"] = trace.vectors.iter().map(|own| packed::vectors(own, Numbers::Halves)).collect();
    }
    let mut model = found["model"].clone();
    model["name"] = name.into();
    model["limits"] = json!(Limits::default());
    model["sites"] = found["sites"].clone();
    json!({ "model": model, "trace": found })
}

/// A hash as policies take it.
fn hash(text: &str) -> String {
    format!("sha256-{}", export::base64::base64(Sha256::digest(text).into_iter()))
}
