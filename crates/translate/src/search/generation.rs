//! The generation settings of a model folder: `generation_config.json`, or `config.json` in older folders.
//!
//! Keys are those of Hugging Face's `generate`; unknown ones are ignored, for they are many. A known key of a wrong type
//! is an error, since its setting would be ignored. There `max_length` counts the start token; here it does not.

use std::path::{Path, PathBuf};

use polyhead_models::decode::rules::AtLimit;
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::{SequenceToSequence, SpecialIds};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Default maximum length of a translation, in tokens.
const MAX_LENGTH: usize = 512;
/// Default beam size of a folder without generation settings.
const BEAM_SIZE: usize = 4;

/// The generation settings of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Beam size (`num_beams`); default: 1 in a folder with settings of its own, otherwise 4.
    pub beam_size: usize,
    /// Maximum number of tokens of a translation, the end token included (`max_length` − 1); default: 512, or the model's
    /// positions.
    pub max_length: usize,
    /// Minimum number of tokens before the end token (`min_length` − 1); default: 0.
    pub min_length: usize,
    /// Exponent of the length that sums of log-probabilities are divided by (`length_penalty`); default: 1.
    pub length_penalty: f64,
    /// Stopping rule of the beam search (`early_stopping`); default: the heuristic.
    pub early_stopping: EarlyStopping,
    /// Sequences of tokens that must not occur (`bad_words_ids`); default: padding.
    pub suppressed: Vec<Vec<u32>>,
    /// Behaviour at the maximum length (`forced_eos_token_id`); default: the translation is cut.
    pub at_limit: AtLimit,
    /// n of the n-grams that must not repeat (`no_repeat_ngram_size`); default: 0, no such rule.
    pub no_repeat_ngram: usize,
    /// Penalty of tokens that occurred before (`repetition_penalty`); default: 1, none.
    pub repetition_penalty: f32,
    /// Mean log-probability of a token below which a translation is noted as unsure (`unsure_below`, a key of this
    /// program); default: none, nothing is noted.
    pub unsure_below: Option<f64>,
    /// Id that decoding starts from (`decoder_start_token_id`); default: the model's.
    pub start_id: u32,
    /// Id that ends a translation (`eos_token_id`); default: the model's.
    pub end_id: u32,
    /// Id of padding (`pad_token_id`); default: the model's.
    pub pad_id: u32,
}

impl Generation {
    /// The settings of a model whose folder has none.
    pub fn of(model: &SequenceToSequence) -> Self {
        Self::with(model.special_ids(), model.max_len())
    }

    fn with(SpecialIds { pad_id, end_id, start_id }: SpecialIds, max_len: usize) -> Self {
        Self {
            beam_size: BEAM_SIZE,
            max_length: MAX_LENGTH.min(max_len),
            min_length: 0,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            suppressed: if pad_id == end_id { vec![] } else { vec![vec![pad_id]] },
            at_limit: AtLimit::Cut,
            no_repeat_ngram: 0,
            repetition_penalty: 1.0,
            unsure_below: None,
            start_id,
            end_id,
            pad_id,
        }
    }

    /// Reads the settings of a folder.
    ///
    /// # Errors
    /// If a file is not a JSON object, or a key has a value of another type.
    pub fn load(folder: &Path, model: &SequenceToSequence) -> Result<Self> {
        let own = folder.join("generation_config.json");
        let path = if own.exists() { own } else { folder.join("config.json") };
        if !path.exists() {
            return Ok(Self::of(model));
        }
        let text = std::fs::read(&path).map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        let map: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| {
            Error::file(
                &path,
                format!("{error}, expected a JSON object"),
                "correct the file or fetch it again",
            )
        })?;
        Settings { path, map }.over(Self::of(model), model.max_len())
    }
}

/// The keys of a file.
struct Settings {
    path: PathBuf,
    map: Map<String, Value>,
}

impl Settings {
    /// The settings of the file over `default`; translations have at most `max_len` tokens.
    fn over(&self, default: Generation, max_len: usize) -> Result<Generation> {
        // A folder with such settings relies on Hugging Face's defaults for the others.
        let is_foreign =
            self.map.contains_key("decoder_start_token_id") || self.map.contains_key("num_beams");
        let beam_size = if is_foreign { 1 } else { default.beam_size };
        let max_length = self.get("max_length", "a whole number of 2 or more", |value| {
            size(value).filter(|&length| length > 1).map(|length| length - 1)
        })?;
        let min_length = self.get("min_length", "a whole number", size)?;
        let end_id = self.get("eos_token_id", "an id", id)?.unwrap_or(default.end_id);
        let at_limit = match self.get("forced_eos_token_id", "an id", id)? {
            Some(_) => AtLimit::ForceEnd,
            None => default.at_limit,
        };
        Ok(Generation {
            beam_size: self.get("num_beams", "a whole number of 1 or more", positive)?.unwrap_or(beam_size),
            max_length: max_length.unwrap_or(default.max_length).min(max_len),
            min_length: min_length.map_or(default.min_length, |length| length.saturating_sub(1)),
            length_penalty: self
                .get("length_penalty", "a number", Value::as_f64)?
                .unwrap_or(default.length_penalty),
            early_stopping: self
                .get("early_stopping", "true, false or \"never\"", stopping)?
                .unwrap_or(default.early_stopping),
            suppressed: self
                .get("bad_words_ids", "a list of lists of ids", ids)?
                .unwrap_or(default.suppressed),
            at_limit,
            no_repeat_ngram: self
                .get("no_repeat_ngram_size", "a whole number", size)?
                .unwrap_or(default.no_repeat_ngram),
            repetition_penalty: self
                .get("repetition_penalty", "a positive number", penalty)?
                .unwrap_or(default.repetition_penalty),
            unsure_below: self.get("unsure_below", "a negative number", negative)?.or(default.unsure_below),
            start_id: self.get("decoder_start_token_id", "an id", id)?.unwrap_or(default.start_id),
            end_id,
            pad_id: self.get("pad_token_id", "an id", id)?.unwrap_or(default.pad_id),
        })
    }

    /// The value of a key; none if it is missing or null.
    fn get<T>(&self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let invalid = || {
            let message = format!("{key} is {value}, expected {expected}");
            Error::file(&self.path, message, "correct the key or remove it")
        };
        read(value).map(Some).ok_or_else(invalid)
    }
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|size| usize::try_from(size).ok())
}

fn positive(value: &Value) -> Option<usize> {
    size(value).filter(|&size| size > 0)
}

/// An id, or a list of one.
fn id(value: &Value) -> Option<u32> {
    let value = match value.as_array().map(Vec::as_slice) {
        Some([single]) => single,
        _ => value,
    };
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn ids(value: &Value) -> Option<Vec<Vec<u32>>> {
    value.as_array()?.iter().map(|list| list.as_array()?.iter().map(id).collect()).collect()
}

fn penalty(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| *number > 0.0 && number.is_finite())
}

fn negative(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| *number < 0.0)
}

fn stopping(value: &Value) -> Option<EarlyStopping> {
    match value {
        Value::Bool(true) => Some(EarlyStopping::First),
        Value::Bool(false) => Some(EarlyStopping::Heuristic),
        Value::String(word) if word == "never" => Some(EarlyStopping::Never),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Generation> {
        let map = serde_json::from_str(text).unwrap();
        Settings { path: "generation_config.json".into(), map }
            .over(Generation::with(SpecialIds { pad_id: 9, end_id: 0, start_id: 0 }, 1024), 1024)
    }

    #[test]
    fn keys_mean_what_they_mean_to_hugging_face() {
        let found = read(
            r#"{"num_beams": 6, "max_length": 300, "bad_words_ids": [[7], [1, 2]], "eos_token_id": [3], "top_k": 50,
                "forced_eos_token_id": 3, "early_stopping": "never", "length_penalty": 0.6, "repetition_penalty": null}"#,
        )
        .unwrap();
        assert_eq!((found.beam_size, found.max_length, found.end_id), (6, 299, 3));
        assert_eq!((found.suppressed, found.at_limit), (vec![vec![7], vec![1, 2]], AtLimit::ForceEnd));
        assert_eq!((found.early_stopping, found.length_penalty), (EarlyStopping::Never, 0.6));
        assert_eq!((found.repetition_penalty, found.unsure_below), (1.0, None));
        assert_eq!(read(r#"{"unsure_below": -1.25}"#).unwrap().unsure_below, Some(-1.25));
        let silent = read("{}").unwrap();
        assert_eq!((silent.beam_size, silent.max_length, silent.suppressed), (4, 512, vec![vec![9]]));
        assert_eq!(read(r#"{"decoder_start_token_id": 9}"#).unwrap().beam_size, 1);
    }

    #[test]
    fn an_invalid_value_is_named_with_its_key() {
        for (text, message) in [
            (r#"{"num_beams": "4"}"#, "num_beams is \"4\", expected a whole number of 1 or more"),
            (r#"{"num_beams": 0}"#, "num_beams is 0, expected"),
            (r#"{"max_length": -1}"#, "max_length is -1, expected"),
            (r#"{"bad_words_ids": [1]}"#, "bad_words_ids is [1], expected a list of lists of ids"),
            (r#"{"early_stopping": "soon"}"#, "early_stopping is \"soon\""),
            (r#"{"unsure_below": 1}"#, "unsure_below is 1, expected a negative number"),
            (r#"{"repetition_penalty": 0}"#, "repetition_penalty is 0, expected a positive number"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
