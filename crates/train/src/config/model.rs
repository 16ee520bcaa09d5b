//! `[model]`: the model family, a preset, and keys that override it, as `ModelConfig::from_recipe` reads them.
//!
//! Values that follow from the text (vocabulary sizes, ids of special tokens, labels) cannot be set.

use std::path::Path;

use polyhead_models::checkpoint::{CheckpointLayout, with_head};
use polyhead_models::encoder::EncoderHead;
use polyhead_models::{ModelConfig, View};
use polyhead_text::Diagnostic;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::starting_model;
use crate::task::Task;
use crate::{Error, Result};

/// The default model, without vocabulary sizes.
pub(super) fn default() -> ModelConfig {
    ModelConfig::from_recipe(&Map::new()).expect("the defaults fit together")
}

/// Keys of the layers between the states of an encoder and its head.
const TRANSFORM: [&str; 3] = ["transform", "transform_activation", "transform_bias"];
/// Keys that no weight depends on: they may differ from those of the folder that a run starts from.
const FREE: [&str; 3] = ["dropout", "pooling", "stochastic_depth"];

/// Resolves a section to a model config; the task decides the default family, and the head of an encoder.
pub(super) fn complete(given: &Table, task: Task) -> Result<ModelConfig> {
    let mut keys = json(given);
    let head = task.head().filter(|head| *head != EncoderHead::Classes);
    if head.is_some() {
        keys.entry("model_type").or_insert_with(|| "bert".into());
    }
    let model = ModelConfig::from_recipe_of(task.view(), &keys).map_err(named)?;
    let Some(head) = head.filter(|_| model.view() == View::Encoder) else { return Ok(model) };
    let model = with_head(&model, CheckpointLayout::Polyhead, head).map_err(|error| {
        let message = format!("{error} for task = {:?}", task.name());
        Error::config("model.model_type", message, "leave model_type out")
    })?;
    keys.retain(|key, _| TRANSFORM.contains(&key.as_str()));
    model.with_keys(&keys).map_err(named)
}

/// The keys of a section as JSON.
fn json(given: &Table) -> Map<String, Json> {
    let keys = serde_json::to_value(given).ok().and_then(|value| value.as_object().cloned());
    keys.unwrap_or_default()
}

/// An error about a key, with its section.
fn named(error: polyhead_models::Error) -> Error {
    match error {
        polyhead_models::Error::Key(Diagnostic { place: key, message, hint }) => {
            let place = if key.is_empty() { "model".to_owned() } else { format!("model.{key}") };
            Error::config(place, message, hint)
        }
        other => other.into(),
    }
}

/// The config of a model folder for a task, by default that of the model; what a section gives must agree with it, except where
/// no weight depends on it.
pub(super) fn of_folder(folder: &Path, given: &Table, task: Option<Task>) -> Result<(ModelConfig, Task)> {
    let (model, task) = starting_model::config(folder, task)?;
    let mut free = json(given);
    free.retain(|key, _| FREE.contains(&key.as_str()) && table(&model).contains_key(key));
    let model = model.with_keys(&free).map_err(named)?;
    let own = table(&model);
    match given.iter().find(|(key, value)| own.get(*key) != Some(value)) {
        None => Ok((model, task)),
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
