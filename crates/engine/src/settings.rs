//! The keys of `generation_config.json`, as Hugging Face's `generate` reads them: values with their checks, and the rules for
//! tokens.

use std::path::PathBuf;

use polyhead_models::decode::rules::{AtLimit, EndDecay, Rules, SequenceBias};
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_text::whole;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// A key that is not supported: its name, the value that changes nothing (0 for false), and what to do instead. Null never
/// changes anything.
pub type UnsupportedKey = (&'static str, f64, &'static str);

/// The keys of a file.
#[derive(Debug)]
pub struct Settings {
    path: PathBuf,
    map: Map<String, Value>,
}

impl Settings {
    /// Reads a file with a JSON object.
    ///
    /// # Errors
    /// If the file cannot be read or is no JSON object.
    pub fn load(path: PathBuf) -> Result<Self> {
        let text = whole::read(&path, whole::MAX_SETTINGS)
            .map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        let map = serde_json::from_slice(&text).map_err(|error| {
            let message = format!("{error}, expected a JSON object");
            Error::file(&path, message, "correct the file or fetch it again")
        })?;
        Ok(Self { path, map })
    }

    /// The keys of an object; `path` names it in messages.
    pub fn new(path: PathBuf, map: Map<String, Value>) -> Self {
        Self { path, map }
    }

    /// True if the key is there, even if it is null.
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// The value of a key; none if it is missing or null.
    ///
    /// # Errors
    /// If `read` does not accept the value.
    pub fn get<T>(&self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let invalid = || {
            let message = format!("{key} is {value}, expected {expected}");
            Error::file(&self.path, message, "correct the key or remove it")
        };
        read(value).map(Some).ok_or_else(invalid)
    }

    /// Checks that no key has a value that would change what `generate` writes and is not supported.
    ///
    /// # Errors
    /// If there is such a key.
    pub fn check_supported(&self, unsupported: &[UnsupportedKey]) -> Result<()> {
        match self.unsupported(unsupported).next() {
            Some((message, hint)) => Err(Error::file(&self.path, message, hint)),
            None => Ok(()),
        }
    }

    /// What is found and expected, and what to do, for each key with a value that changes something and is not supported.
    pub fn unsupported<'a>(
        &'a self,
        unsupported: &'a [UnsupportedKey],
    ) -> impl Iterator<Item = (String, &'static str)> + 'a {
        unsupported.iter().filter_map(|(key, neutral, hint)| {
            let value = self.map.get(*key)?;
            let number = value.as_f64().or(value.as_bool().map(|flag| f64::from(u8::from(flag))));
            let expected = match value {
                _ if neutral.is_nan() => "null".to_owned(),
                Value::Bool(_) => (*neutral != 0.0).to_string(),
                _ => neutral.to_string(),
            };
            let differs = !value.is_null() && number != Some(*neutral);
            differs.then(|| (format!("{key} is {value}, expected {expected}"), *hint))
        })
    }

    /// The rules for tokens; `end_id` is one of `end_ids`.
    ///
    /// # Errors
    /// If a key has a value of another type, or a token is forced and forbidden.
    pub fn rules(&self, default: Rules, end_ids: &[u32], end_id: u32) -> Result<Rules> {
        let forced_end = self.get("forced_eos_token_id", "an id or a list of ids", ids)?;
        let list = |key: &str| Ok::<_, Error>(self.get(key, "a list of ids", id_list)?.unwrap_or_default());
        let mut other_end_ids: Vec<u32> = end_ids.iter().copied().filter(|&id| id != end_id).collect();
        other_end_ids.sort_unstable();
        other_end_ids.dedup();
        let rules = Rules {
            suppressed: self
                .get("bad_words_ids", "a list of lists of ids", sequences)?
                .unwrap_or(default.suppressed),
            forbidden: list("suppress_tokens")?,
            forbidden_first: list("begin_suppress_tokens")?,
            biases: self
                .get(
                    "sequence_bias",
                    "a list of pairs of ids and a number, such as [[[7, 3], -2.5]]",
                    biases,
                )?
                .unwrap_or_default(),
            no_repeat_ngram: self
                .get("no_repeat_ngram_size", "a whole number", size)?
                .unwrap_or(default.no_repeat_ngram),
            repetition_penalty: self
                .get("repetition_penalty", "a positive number", penalty)?
                .unwrap_or(default.repetition_penalty),
            includes_source: default.includes_source,
            prefixes: Vec::new(),
            forced_first: self.get("forced_bos_token_id", "an id", id)?,
            other_end_ids,
            end_decay: self.get(
                "exponential_decay_length_penalty",
                "a whole number and a positive number, such as [20, 1.05]",
                decay,
            )?,
            at_limit: forced_end.map_or(default.at_limit, AtLimit::Force),
            timestamps: default.timestamps,
            renormalise: self.get("renormalize_logits", "true or false", Value::as_bool)?.unwrap_or(false),
        };
        self.check_forced(&rules)?;
        Ok(rules)
    }

    /// An error if a token is forced where `suppress_tokens` allows none.
    fn check_forced(&self, rules: &Rules) -> Result<()> {
        let first = rules.forced_first.as_slice();
        let last = if let AtLimit::Force(ids) = &rules.at_limit { ids.as_slice() } else { &[] };
        for (key, forced) in [("forced_bos_token_id", first), ("forced_eos_token_id", last)] {
            if !forced.is_empty() && forced.iter().all(|id| rules.forbidden.contains(id)) {
                let message = format!("{key} is {forced:?}, which suppress_tokens forbids");
                return Err(Error::file(&self.path, message, "remove the id from one of the two keys"));
            }
        }
        Ok(())
    }
}

/// A whole number.
pub fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|size| usize::try_from(size).ok())
}

/// A whole number of 1 or more.
pub fn positive(value: &Value) -> Option<usize> {
    size(value).filter(|&size| size > 0)
}

/// An id, or a list of one.
pub fn id(value: &Value) -> Option<u32> {
    match ids(value)?.as_slice() {
        &[single] => Some(single),
        _ => None,
    }
}

/// An id, or a list of one or more.
pub fn ids(value: &Value) -> Option<Vec<u32>> {
    match value {
        Value::Array(_) => id_list(value).filter(|ids| !ids.is_empty()),
        _ => Some(vec![number_id(value)?]),
    }
}

/// A list of ids, possibly empty.
pub fn id_list(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(number_id).collect()
}

fn number_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// A list of lists of ids.
pub fn sequences(value: &Value) -> Option<Vec<Vec<u32>>> {
    value.as_array()?.iter().map(id_list).collect()
}

/// Pairs of ids and a number; of several for the same ids the last counts.
fn biases(value: &Value) -> Option<Vec<SequenceBias>> {
    let mut found: Vec<SequenceBias> = Vec::new();
    for pair in value.as_array()? {
        let [ids, bias] = pair.as_array()?.as_slice() else { return None };
        let ids = id_list(ids).filter(|ids| !ids.is_empty())?;
        let bias = bias.as_f64()? as f32;
        match found.iter_mut().find(|other| other.ids == ids) {
            Some(other) => other.bias = bias,
            None => found.push(SequenceBias { ids, bias }),
        }
    }
    Some(found)
}

fn decay(value: &Value) -> Option<EndDecay> {
    let [start, factor] = value.as_array()?.as_slice() else { return None };
    let factor = factor.as_f64().filter(|factor| *factor > 0.0)?;
    Some(EndDecay { start: size(start)?, factor })
}

/// A positive number.
pub fn penalty(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| *number > 0.0 && number.is_finite())
}

/// `early_stopping`: true, false or "never".
pub fn stopping(value: &Value) -> Option<EarlyStopping> {
    match value {
        Value::Bool(true) => Some(EarlyStopping::First),
        Value::Bool(false) => Some(EarlyStopping::Heuristic),
        Value::String(word) if word == "never" => Some(EarlyStopping::Never),
        _ => None,
    }
}
