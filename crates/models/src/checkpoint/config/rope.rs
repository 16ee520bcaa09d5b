//! The rotary positions of a Hugging Face config: `rope_theta` with `rope_scaling`, or `rope_parameters`.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::transformer::config::RotaryScale;
use crate::{Error, Result};

/// Kinds of scaling that are read.
const KINDS: &str = "default, linear, dynamic, llama3 or yarn";
/// Keys of all kinds.
const KNOWN: [&str; 15] = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
    "finetuned",
];

/// The keys about rotary positions.
pub(super) struct Section {
    theta: Option<Value>,
    scaling: Map<String, Value>,
}

impl Section {
    pub(super) fn of(map: &Map<String, Value>) -> Self {
        let section =
            ["rope_parameters", "rope_scaling"].into_iter().find_map(|key| map.get(key)?.as_object());
        let scaling = section.cloned().unwrap_or_default();
        let theta = scaling.get("rope_theta").or_else(|| map.get("rope_theta")).cloned();
        Self { theta: theta.filter(|theta| !theta.is_null()), scaling }
    }

    /// The base of the angles; default: 10,000.
    pub(super) fn base(&self, path: &Path) -> Result<f32> {
        match &self.theta {
            None => Ok(10_000.0),
            Some(value) => value
                .as_f64()
                .map(|base| base as f32)
                .ok_or_else(|| wrong(path, format!("rope_theta is {value}, expected a number"))),
        }
    }

    /// The scaling; dynamic scaling begins beyond `max_len`, where a text ends.
    pub(super) fn scaling(&self, path: &Path, max_len: usize) -> Result<Option<RotaryScale>> {
        if let Some(key) = self.scaling.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(wrong(path, format!("unknown key {key:?} of the rotary positions")));
        }
        let number = |key: &str| self.number(path, key);
        let required = |key: &str| {
            number(key)?
                .ok_or_else(|| wrong(path, format!("rotary positions without {key}, expected a number")))
        };
        let kind = self.scaling.get("rope_type").or_else(|| self.scaling.get("type"));
        if number("partial_rotary_factor")?.is_some_and(|factor| factor != 1.0) {
            return Err(wrong(path, "partial_rotary_factor is not 1: a part of the heads is rotated".into()));
        }
        let original = || {
            Ok::<_, Error>(number("original_max_position_embeddings")?.map_or(max_len, |size| size as usize))
        };
        match kind.and_then(Value::as_str) {
            None if kind.is_none_or(Value::is_null) => Ok(None),
            Some("default" | "dynamic") => Ok(None),
            Some("linear") => Ok(Some(RotaryScale::Linear { factor: required("factor")? })),
            Some("llama3") => Ok(Some(RotaryScale::Llama3 {
                factor: required("factor")?,
                low: required("low_freq_factor")?,
                high: required("high_freq_factor")?,
                original: required("original_max_position_embeddings")? as usize,
            })),
            Some("yarn") => {
                for key in ["mscale", "mscale_all_dim"] {
                    if number(key)?.is_some() {
                        return Err(wrong(path, format!("{key} of YaRN is not supported")));
                    }
                }
                if self.scaling.get("truncate").is_some_and(|value| *value != json!(true)) {
                    return Err(wrong(path, "truncate = false of YaRN is not supported".into()));
                }
                let factor = required("factor")?;
                let usual = if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 };
                Ok(Some(RotaryScale::Yarn {
                    factor,
                    fast: number("beta_fast")?.unwrap_or(32.0),
                    slow: number("beta_slow")?.unwrap_or(1.0),
                    original: original()?,
                    attention: number("attention_factor")?.unwrap_or(usual),
                }))
            }
            other => {
                let found = other.map_or_else(|| format!("{kind:?}"), |name| format!("{name:?}"));
                Err(wrong(path, format!("rope_type {found}, expected {KINDS}")))
            }
        }
    }

    fn number(&self, path: &Path, key: &str) -> Result<Option<f32>> {
        match self.scaling.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number as f32)),
                None => Err(wrong(path, format!("{key} is {value}, expected a number"))),
            },
        }
    }
}

fn wrong(path: &Path, message: String) -> Error {
    Error::file(path, message, "these rotary positions cannot be computed")
}

/// `rope_scaling`, null without scaling.
pub(super) fn scaling_value(scaling: Option<RotaryScale>) -> Value {
    match scaling {
        None => Value::Null,
        Some(RotaryScale::Linear { factor }) => json!({ "rope_type": "linear", "factor": factor }),
        Some(RotaryScale::Llama3 { factor, low, high, original }) => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }),
        Some(RotaryScale::Yarn { factor, fast, slow, original, attention }) => json!({
            "rope_type": "yarn",
            "factor": factor,
            "beta_fast": fast,
            "beta_slow": slow,
            "attention_factor": attention,
            "original_max_position_embeddings": original,
        }),
    }
}

/// `rope_parameters`.
pub(super) fn parameters(base: f32, scaling: Option<RotaryScale>) -> Value {
    let mut map = scaling_value(scaling).as_object().cloned().unwrap_or_default();
    map.entry("rope_type").or_insert_with(|| json!("default"));
    map.insert("rope_theta".into(), json!(base));
    map.into()
}
