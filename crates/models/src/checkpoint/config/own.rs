//! Polyhead's own `config.json`: the fields of a family's config, `model_type` and `layout`.
//!
//! `dropout` of a Transformer may be a single number, which then applies to embeddings and residuals.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::keys::{Keys, ignored};
use crate::checkpoint::names::CheckpointLayout;
use crate::{Error, ModelConfig, Result};

/// The config of a family, and the layout if the file names one.
pub(super) fn read(
    path: &Path,
    family: &ModelConfig,
    mut map: Map<String, Value>,
) -> Result<(ModelConfig, Option<CheckpointLayout>)> {
    let fields = family.keys();
    let mut known: Vec<&str> = fields.iter().map(String::as_str).collect();
    known.extend(["model_type", "layout"]);
    Keys::new(path, map.clone()).check_known(&known)?;
    let layout =
        map.remove("layout").map(|layout| parse::<CheckpointLayout>(path, "layout", layout)).transpose()?;
    map.retain(|key, _| key != "model_type" && !ignored().any(|ignored| ignored == key));
    if let (ModelConfig::Transformer(_), Some(dropout)) = (family, map.get_mut("dropout"))
        && dropout.is_number()
    {
        *dropout = json!({ "embedding": dropout, "residual": dropout });
    }
    let config = family.read(&map, &|key, message| invalid(path, key, message))?;
    Ok((config, layout))
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path, key: &str, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| invalid(path, key, &error.to_string()))
}

fn invalid(path: &Path, key: &str, message: &str) -> Error {
    Error::file(path, format!("{key}: {message}"), "correct the value of this key")
}
