//! What the configs of Hugging Face's decoder-only models have in common.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_tensor::Dtype;
use serde_json::{Value, json};

use super::keys::Keys;
use super::{gpt2, llama};
use crate::checkpoint::names::CheckpointLayout;
use crate::sequence_to_sequence::SpecialIds;
use crate::transformer::TransformerLanguageModelConfig;
use crate::{ModelConfig, Result};

/// The special ids of a config. `defaults` are those of the start and end tokens. A model without a token for padding is
/// padded with the end token: a causal model never attends to padding.
pub(super) fn special_ids(
    keys: &Keys<'_>,
    vocab_size: usize,
    [start, end]: [Option<u32>; 2],
) -> Result<SpecialIds> {
    let known = |id: Option<u32>| id.filter(|id| (*id as usize) < vocab_size);
    let found_end = keys.first_id("eos_token_id")?.or_else(|| known(end));
    let found_start = keys.first_id("bos_token_id")?.or_else(|| known(start));
    let end_id = found_end.or(found_start).unwrap_or(0);
    Ok(SpecialIds {
        pad_id: keys.first_id("pad_token_id")?.unwrap_or(end_id),
        end_id,
        start_id: found_start.unwrap_or(end_id),
    })
}

/// The special ids as a config writes them.
pub(super) struct SpecialKeys {
    pub(super) bos: u32,
    pub(super) eos: u32,
    /// Null where padding is the end token.
    pub(super) pad: Value,
}

impl SpecialKeys {
    pub(super) fn of(config: &TransformerLanguageModelConfig) -> Self {
        let &TransformerLanguageModelConfig { pad_id, end_id, start_id, .. } = config;
        let pad = if pad_id == end_id { Value::Null } else { json!(pad_id) };
        Self { bos: start_id, eos: end_id, pad }
    }
}

/// The reasons why a class of models cannot represent a config.
#[derive(Default)]
pub(super) struct Reasons(Vec<String>);

impl Reasons {
    pub(super) fn unless(mut self, fits: bool, reason: &str) -> Self {
        if !fits {
            self.0.push(reason.to_owned());
        }
        self
    }

    pub(super) fn found(self) -> std::result::Result<(), Vec<String>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// A JSON object with its keys in alphabetical order; numbers that were f32 in their shortest decimal form.
pub(super) fn sorted(value: &Value) -> String {
    let keys =
        value.as_object().cloned().unwrap_or_default().into_iter().map(|(key, value)| (key, shortest(value)));
    let sorted: BTreeMap<String, Value> = keys.collect();
    serde_json::to_string_pretty(&sorted).expect("a Value always serialises") + "\n"
}

fn shortest(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let single = number.as_f64().unwrap_or_default() as f32;
            single.to_string().parse::<f64>().map_or(Value::Number(number), |number| json!(number))
        }
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, shortest(value))).collect(),
        other => other,
    }
}

/// The layout of Hugging Face's models that can represent a config.
pub(crate) fn fitting(config: &ModelConfig) -> Option<CheckpointLayout> {
    let ModelConfig::TransformerLanguageModel(config) = config else { return None };
    if gpt2::compatible(config).is_ok() {
        Some(CheckpointLayout::Gpt2)
    } else {
        llama::compatible(config).is_ok().then_some(CheckpointLayout::Llama)
    }
}

/// The text of `config.json` in the format of a layout.
pub(crate) fn text(
    path: &Path,
    config: &TransformerLanguageModelConfig,
    (layout, dtype): (CheckpointLayout, Dtype),
) -> Result<String> {
    if layout == CheckpointLayout::Gpt2 {
        gpt2::text(path, config, dtype)
    } else {
        llama::text(path, config, dtype)
    }
}
