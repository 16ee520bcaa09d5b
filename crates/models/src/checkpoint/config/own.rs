//! Our own `config.json`: the fields of [`TransformerConfig`] beside `model_type` and `layout`.
//!
//! `dropout` may be a single number, which is then that of embeddings and residuals.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::keys::{Keys, ignored};
use crate::checkpoint::names::Layout;
use crate::transformer::TransformerConfig;
use crate::{Error, Result};

/// What `model_type` is in these files.
pub(super) const MODEL_TYPE: &str = "polyhead_transformer";

/// The config, and the layout if it is given.
pub(super) fn read(path: &Path, mut map: Map<String, Value>) -> Result<(TransformerConfig, Option<Layout>)> {
    let fields = fields();
    let mut known: Vec<&str> = fields.iter().map(String::as_str).collect();
    known.extend(["model_type", "layout"]);
    Keys::new(path, map.clone()).check_known(&known)?;
    let layout = map.remove("layout").map(|layout| part::<Layout>(path, "layout", layout)).transpose()?;
    map.retain(|key, _| key != "model_type" && !ignored().any(|ignored| ignored == key));
    if let Some(dropout) = map.get_mut("dropout").filter(|dropout| dropout.is_number()) {
        *dropout = json!({ "embedding": dropout, "residual": dropout });
    }
    for (key, value) in &map {
        // One by one, so that a message names the key.
        let alone = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        part::<TransformerConfig>(path, key, alone)?;
    }
    Ok((part(path, MODEL_TYPE, Value::Object(map))?, layout))
}

/// The text of such a file; the same config gives the same bytes.
pub(crate) fn text(config: &TransformerConfig, layout: Layout) -> String {
    #[derive(Serialize)]
    struct File<'a> {
        model_type: &'static str,
        layout: Layout,
        #[serde(flatten)]
        config: &'a TransformerConfig,
    }
    let file = File { model_type: MODEL_TYPE, layout, config };
    serde_json::to_string_pretty(&file).expect("a config is always JSON") + "\n"
}

fn fields() -> Vec<String> {
    let value = serde_json::to_value(TransformerConfig::default()).expect("a config is always JSON");
    value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

fn part<T: for<'de> Deserialize<'de>>(path: &Path, key: &str, value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| Error::file(path, format!("{key}: {error}"), "correct the value of this key"))
}
