//! `[model]`: the model family, a preset, and keys that override it, as `ModelConfig::from_recipe` reads them.
//!
//! Values that follow from the text (vocabulary sizes, ids of special tokens, labels) cannot be set.

use polyhead_models::ModelConfig;
use polyhead_text::Diagnostic;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::task::Task;
use crate::{Error, Result};

/// The default model, without vocabulary sizes.
pub(super) fn default() -> ModelConfig {
    ModelConfig::from_recipe(&Map::new()).expect("the defaults fit together")
}

/// Resolves a section to a model config; the task decides the default family.
pub(super) fn complete(given: &Table, task: Task) -> Result<ModelConfig> {
    let keys = serde_json::to_value(given).ok().and_then(|value| value.as_object().cloned());
    ModelConfig::from_recipe_of(task.view(), &keys.unwrap_or_default()).map_err(|error| match error {
        polyhead_models::Error::Key(Diagnostic { place: key, message, hint }) => {
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

/// Converts JSON to TOML; nulls are left out. All fractions are f32 and get the digits of an f32.
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

/// Accepts any table; [`complete`] parses it later, where messages can name the key.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<ModelConfig, D::Error> {
    Table::deserialize(deserializer)?;
    Ok(default())
}
