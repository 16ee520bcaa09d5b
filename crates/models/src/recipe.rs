//! The section `[model]` of a recipe and Polyhead's own `config.json`, read and written the same way for all families.

use polyhead_text::spelling::nearest;
use serde_json::{Map, Value};

use crate::family::Family;
use crate::{Error, Result};

/// The prefix of `model_type` in files.
pub(crate) const PREFIX: &str = "polyhead_";
/// The key that names the family.
pub(crate) const MODEL_TYPE: &str = "model_type";
/// The key that lists the names of the classes.
const LABELS: &str = "labels";
/// The key that names a preset.
const PRESET: &str = "preset";

/// The name of a family in recipes.
pub(crate) fn short(model_type: &'static str) -> &'static str {
    model_type.strip_prefix(PREFIX).unwrap_or(model_type)
}

/// Every key with its value.
pub(crate) fn table<C: Family>(config: &C) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(map)) => map,
        _ => unreachable!("a config always serialises to a JSON object"),
    }
}

/// The section as written out: `model_type` and every key except those derived from the data.
pub(crate) fn written<C: Family>(config: &C) -> Map<String, Value> {
    let mut map = table(config);
    map.retain(|key, _| !C::DERIVED.contains(&key.as_str()));
    map.insert(MODEL_TYPE.into(), short(C::MODEL_TYPE).into());
    map
}

/// A config from a section: a preset, and the keys that differ from it.
pub(crate) fn complete<C: Family>(_: &C, section: &Map<String, Value>) -> Result<C> {
    let name = match section.get(PRESET) {
        None => C::PRESETS[0],
        Some(Value::String(name)) => name,
        Some(other) => return Err(unknown(PRESET, &other.to_string(), C::PRESETS)),
    };
    let preset = C::named(name).ok_or_else(|| unknown(PRESET, name, C::PRESETS))?;
    let mut map = table(&preset);
    let own = |key: &str| key != PRESET && key != MODEL_TYPE;
    for (key, value) in section.iter().filter(|(key, _)| C::STACK_KEYS.contains(&key.as_str())) {
        for stack in C::STACKS {
            if let Some(Value::Object(stack)) = map.get_mut(*stack) {
                stack.insert(key.clone(), value.clone());
            }
        }
    }
    for (key, value) in section.iter().filter(|(key, _)| own(key) && !C::STACK_KEYS.contains(&key.as_str())) {
        check_key::<C>(key, &map)?;
        match (map.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) if !C::TAGGED.contains(&key.as_str()) => {
                known.extend(more.clone());
            }
            _ => drop(map.insert(key.clone(), value.clone())),
        }
    }
    let config: C = serde_json::from_value(Value::Object(map))
        .map_err(|error| Error::key("", error.to_string(), "polyhead train --dump-config shows every key"))?;
    check(&config)?;
    Ok(config)
}

/// The config with other values of some keys.
pub(crate) fn changed<C: Family>(config: &C, keys: &Map<String, Value>) -> Result<C> {
    let mut map = table(config);
    for (key, value) in keys {
        match (map.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) if !C::TAGGED.contains(&key.as_str()) => {
                known.extend(more.clone());
            }
            _ => drop(map.insert(key.clone(), value.clone())),
        }
    }
    serde_json::from_value(Value::Object(map))
        .map_err(|error| Error::key("", error.to_string(), "polyhead train --dump-config shows every key"))
}

/// Rejects impossible sizes before any data is read.
fn check<C: Family>(config: &C) -> Result<()> {
    let least = crate::DataSpec { vocab_sizes: [1, 1], labels: vec![String::new()], ..Default::default() };
    config
        .with_data(&least)
        .check()
        .map_err(|error| Error::key("", error.to_string(), "correct the section [model]"))
}

fn check_key<C: Family>(key: &str, known: &Map<String, Value>) -> Result<()> {
    if C::DERIVED.contains(&key) && key == LABELS {
        return Err(Error::key(
            key,
            "set by the training data, expected no value",
            "remove it; the labels are those of the training data",
        ));
    }
    let is_of_tokenizer = key.ends_with("_id") || key.ends_with("vocab_size");
    if C::DERIVED.contains(&key) && !is_of_tokenizer {
        return Err(Error::key(key, "set by the training data, expected no value", "remove it"));
    }
    if C::DERIVED.contains(&key) {
        return Err(Error::key(
            key,
            "set by the tokeniser, expected no value",
            "remove it; tokenizer.vocab_size sets the size of the vocabulary",
        ));
    }
    if known.contains_key(key) {
        return Ok(());
    }
    let known = known.keys().map(String::as_str).filter(|key| !C::DERIVED.contains(key));
    let all = known.chain(C::STACK_KEYS.iter().copied()).chain([PRESET, MODEL_TYPE]);
    let nearest = nearest(key, all).unwrap_or_default();
    Err(Error::key(
        key,
        format!("unknown key; the nearest known one is {nearest:?}"),
        "polyhead train --dump-config shows every key",
    ))
}

/// The error for a value that is not one of the known names.
pub(crate) fn unknown(key: &str, found: &str, known: &[&str]) -> Error {
    let nearest = nearest(found, known.iter().copied()).unwrap_or_default();
    Error::key(
        key,
        format!("{found:?}, expected one of {}", known.join(", ")),
        format!("did you mean {nearest:?}?"),
    )
}

/// A config from the keys of a file, first parsed one by one so that an error names the key.
pub(crate) fn from_file<C: Family>(
    _: &C,
    map: &Map<String, Value>,
    to_error: &dyn Fn(&str, &str) -> Error,
) -> Result<C> {
    let read = |key: &str, map: Map<String, Value>| {
        serde_json::from_value::<C>(Value::Object(map)).map_err(|error| to_error(key, &error.to_string()))
    };
    for (key, value) in map {
        read(key, Map::from_iter([(key.clone(), value.clone())]))?;
    }
    read(C::MODEL_TYPE, map.clone())
}
