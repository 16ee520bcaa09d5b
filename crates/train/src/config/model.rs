//! `[model]`: the model family, a preset, and keys that override it, as `ModelConfig::from_recipe` reads them.
//!
//! Values that follow from the text (vocabulary sizes, ids of special tokens, labels) cannot be set.

use std::path::Path;

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
    let mut keys = keys.unwrap_or_default();
    if task == Task::Tagging {
        // The only family with labels of words.
        keys.entry("model_type").or_insert_with(|| "bert".into());
    }
    ModelConfig::from_recipe_of(task.view(), &keys).map_err(|error| match error {
        polyhead_models::Error::Key(Diagnostic { place: key, message, hint }) => {
            let place = if key.is_empty() { "model".to_owned() } else { format!("model.{key}") };
            Error::config(place, message, hint)
        }
        other => other.into(),
    })
}

/// The config of a model folder; what a section gives must agree with it.
pub(super) fn of_folder(folder: &Path, given: &Table) -> Result<ModelConfig> {
    let (model, _) = polyhead_models::checkpoint::read_config(folder)?;
    let own = table(&model);
    match given.iter().find(|(key, value)| own.get(*key) != Some(value)) {
        None => Ok(model),
        Some((key, value)) => {
            let own =
                own.get(key).map_or_else(|| "without this key".to_owned(), |own| format!("{key} = {own}"));
            Err(Error::config(
                format!("model.{key}"),
                format!("{value}, but the run starts from {}: {own}", folder.display()),
                "leave [model] out: the folder has its config",
            ))
        }
    }
}

/// The keys of a section.
fn table(config: &ModelConfig) -> Table {
    config.to_recipe().into_iter().filter_map(|(key, own)| Some((key, written(own)?))).collect()
}

pub(super) fn serialize<S: Serializer>(
    config: &ModelConfig,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    table(config).serialize(serializer)
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
