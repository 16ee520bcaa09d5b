//! `[model]`: the family of the model, a preset, and whatever differs from it, as `ModelConfig::from_recipe` reads them.
//!
//! What the text decides (vocabulary sizes, ids of special tokens, labels) cannot be set.

use polyhead_models::ModelConfig;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::{Error, Result};

/// The usual model, its vocabulary still open.
pub(super) fn default() -> ModelConfig {
    ModelConfig::from_recipe(&Map::new()).expect("the defaults fit together")
}

/// The model that a section means.
pub(super) fn complete(given: &Table) -> Result<ModelConfig> {
    let keys = serde_json::to_value(given).ok().and_then(|value| value.as_object().cloned());
    ModelConfig::from_recipe(&keys.unwrap_or_default()).map_err(|error| match error {
        polyhead_models::Error::Key { key, message, hint } => {
            let place = if key.is_empty() { "model".to_owned() } else { format!("model.{key}") };
            Error::config(place, message, hint)
        }
        other => other.into(),
    })
}

pub(super) fn serialize<S: Serializer>(
    config: &ModelConfig,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    let keys = config.to_recipe().into_iter();
    keys.filter_map(|(key, own)| Some((key, written(own)?))).collect::<Table>().serialize(serializer)
}

/// A value as TOML writes it; keys without a value are left out. All fractions are f32: they get the digits that those have.
fn written(value: Json) -> Option<Value> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(own) => own.into(),
        Json::String(own) => own.into(),
        Json::Number(own) => match own.as_i64() {
            Some(whole) => whole.into(),
            None => (own.as_f64()? as f32).to_string().parse::<f64>().ok()?.into(),
        },
        Json::Array(own) => Value::Array(own.into_iter().filter_map(written).collect()),
        Json::Object(own) => {
            Value::Table(own.into_iter().filter_map(|(key, own)| Some((key, written(own)?))).collect())
        }
    })
}

/// Any table: [`complete`] reads it, where messages can name the key.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<ModelConfig, D::Error> {
    Table::deserialize(deserializer)?;
    Ok(default())
}
