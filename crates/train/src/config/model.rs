//! `[model]`: a preset, and whatever differs from it.
//!
//! The keys are those of [`TransformerConfig`]; `n_layers`, `n_heads` and `d_ff` beside them stand for both stacks. What
//! the tokeniser decides (vocabulary sizes, ids of special tokens) cannot be set.

use polyhead_models::transformer::TransformerConfig;
use polyhead_text::spelling::nearest;
use toml::{Table, Value};

use crate::{Error, Result};

/// The names of the presets.
pub const PRESETS: [&str; 4] = ["tiny", "small", "base", "big"];

/// Decided by the tokeniser.
const DERIVED: [&str; 5] = ["source_vocab_size", "target_vocab_size", "pad_id", "end_id", "start_id"];
/// Keys that stand for both stacks.
const BOTH_STACKS: [&str; 3] = ["n_layers", "n_heads", "d_ff"];
/// Tables of one choice among several, which are replaced whole.
const CHOICES: [&str; 3] = ["position", "encoder_sight", "decoder_sight"];

/// The table as meant: every key of a model, without those that the tokeniser decides.
pub(super) fn complete(given: &Table) -> Result<Table> {
    let preset = match given.get("preset") {
        None => "small",
        Some(Value::String(name)) => name,
        Some(other) => return Err(unknown_preset(&other.to_string())),
    };
    let config = TransformerConfig::named(preset, 0).ok_or_else(|| unknown_preset(preset))?;
    let mut table = Table::try_from(&config)
        .map_err(|error| Error::config("model", error.to_string(), "correct the section [model]"))?;
    table.retain(|key, _| !DERIVED.contains(&key));
    for (key, value) in given.iter().filter(|(key, _)| *key != "preset") {
        if BOTH_STACKS.contains(&key.as_str()) {
            for stack in ["encoder", "decoder"] {
                if let Some(Value::Table(stack)) = table.get_mut(stack) {
                    stack.insert(key.clone(), value.clone());
                }
            }
        }
    }
    for (key, value) in
        given.iter().filter(|(key, _)| *key != "preset" && !BOTH_STACKS.contains(&key.as_str()))
    {
        check_key(key, &table)?;
        match (table.get_mut(key), value) {
            (Some(Value::Table(known)), Value::Table(more)) if !CHOICES.contains(&key.as_str()) => {
                known.extend(more.clone());
            }
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
    check(&table)?;
    Ok(table)
}

/// The model of a complete table with what the tokeniser decides.
pub fn resolve_model(
    table: &Table,
    vocab_sizes: [usize; 2],
    [pad_id, end_id]: [u32; 2],
) -> Result<TransformerConfig> {
    let [source_vocab_size, target_vocab_size] = vocab_sizes;
    // The decoder starts from padding, as Marian's models do, so that other programs can run the model.
    let config = TransformerConfig {
        source_vocab_size,
        target_vocab_size,
        pad_id,
        end_id,
        start_id: pad_id,
        ..typed(table)?
    };
    config.validate()?;
    Ok(config)
}

fn typed(table: &Table) -> Result<TransformerConfig> {
    table.clone().try_into().map_err(|error: toml::de::Error| {
        Error::config("model", error.message().to_owned(), "polyhead train --dump-config shows every key")
    })
}

/// Sizes that cannot work are told before any text is read.
fn check(table: &Table) -> Result<()> {
    let config = TransformerConfig { source_vocab_size: 1, target_vocab_size: 1, ..typed(table)? };
    config
        .validate()
        .map_err(|error| Error::config("model", error.to_string(), "correct the section [model]"))
}

fn check_key(key: &str, known: &Table) -> Result<()> {
    if DERIVED.contains(&key) {
        return Err(Error::config(
            format!("model.{key}"),
            "a key that the tokeniser decides, expected none",
            "remove it; tokenizer.vocab_size sets the size of the vocabulary",
        ));
    }
    if known.contains_key(key) {
        return Ok(());
    }
    let all = known.keys().map(String::as_str).chain(BOTH_STACKS).chain(["preset"]);
    let nearest = nearest(key, all).unwrap_or_default();
    Err(Error::config(
        format!("model.{key}"),
        format!("unknown key; the nearest known one is {nearest:?}"),
        "polyhead train --dump-config shows every key",
    ))
}

fn unknown_preset(found: &str) -> Error {
    let nearest = nearest(found, PRESETS).unwrap_or_default();
    Error::config(
        "model.preset",
        format!("{found:?}, expected one of {}", PRESETS.join(", ")),
        format!("did you mean {nearest:?}?"),
    )
}
