//! The generation settings of a language model's folder: `generation_config.json`, or `config.json` where there is none.
//!
//! Keys are those of Hugging Face's `generate` and act as there, with one exception: without `do_sample` tokens are drawn, since
//! that is the default here. A known key of a wrong type is an error; a key that would change what `generate` writes and is not
//! supported becomes a note.

use std::path::Path;

use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::{LanguageModel, SpecialIds};
use serde_json::Value;

use super::options::GenerateOptions;
use crate::Result;
use crate::settings::{Settings, UnsupportedKey, id, ids, penalty, positive, size, stopping};

const UNSUPPORTED: &[UnsupportedKey] = &[
    ("constraints", f64::NAN, "constrained generation is not supported"),
    ("diversity_penalty", 0.0, "diverse beam search is not supported"),
    ("dola_layers", f64::NAN, "DoLa decoding is not supported"),
    ("encoder_no_repeat_ngram_size", 0.0, "it is for models with an encoder"),
    ("encoder_repetition_penalty", 1.0, "it is for models with an encoder"),
    ("epsilon_cutoff", 0.0, "epsilon sampling is not supported"),
    ("eta_cutoff", 0.0, "eta sampling is not supported"),
    ("force_words_ids", f64::NAN, "constrained generation is not supported"),
    ("guidance_scale", 1.0, "classifier-free guidance is not supported"),
    ("max_time", f64::NAN, "a limit of time would make texts depend on the machine"),
    ("num_beam_groups", 1.0, "diverse beam search is not supported"),
    ("penalty_alpha", 0.0, "contrastive search is not supported"),
    ("token_healing", 0.0, "token healing is not supported"),
    ("top_h", f64::NAN, "top-h sampling is not supported"),
    ("typical_p", 1.0, "typical sampling is not supported"),
    ("watermarking_config", f64::NAN, "watermarks are not supported"),
];

/// The generation settings of a folder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GenerationSettings {
    /// Options that a caller may override.
    pub(super) options: GenerateOptions,
    /// Maximum length with the prompt (`max_length`), where there is no `max_new_tokens`; default: none.
    pub(super) max_length: Option<usize>,
    /// Forbidden and forced tokens; default: none.
    pub(super) rules: Rules,
    /// Exponent of the length penalty of beam search (`length_penalty`); default: 1.
    pub(super) length_penalty: f64,
    /// Stopping rule of beam search (`early_stopping`); default: the heuristic.
    pub(super) early_stopping: EarlyStopping,
    /// Ids that end a text (`eos_token_id`, one or several); default: the model's.
    pub(super) end_ids: Vec<u32>,
    /// Id that an empty prompt begins with (`bos_token_id`); default: none.
    pub(super) start_id: Option<u32>,
    /// What cannot be honoured.
    pub(super) notes: Vec<String>,
}

impl GenerationSettings {
    fn of(SpecialIds { end_id, .. }: SpecialIds) -> Self {
        Self {
            options: GenerateOptions::default(),
            max_length: None,
            rules: Rules::default(),
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            end_ids: vec![end_id],
            start_id: None,
            notes: Vec::new(),
        }
    }

    /// Reads the settings of a folder.
    pub(super) fn load(folder: &Path, model: &LanguageModel) -> Result<Self> {
        let own = folder.join("generation_config.json");
        let (name, path) = if own.exists() {
            ("generation_config.json", own)
        } else {
            ("config.json", folder.join("config.json"))
        };
        if !path.exists() {
            return Ok(Self::of(model.special_ids()));
        }
        let mut found = Self::over(&Settings::load(path)?, Self::of(model.special_ids()))?;
        let config = folder.join("config.json");
        if name != "config.json" && config.exists() {
            // As in transformers, ids that the generation settings leave out are those of the model.
            let config = Settings::load(config)?;
            found.start_id = found.start_id.or(config.get("bos_token_id", "an id", id)?);
        }
        for note in &mut found.notes {
            *note = format!("{name}: {note}");
        }
        Ok(found)
    }

    /// The settings of a file over `default`.
    fn over(settings: &Settings, default: Self) -> Result<Self> {
        let number = |key: &str| settings.get(key, "a number of 0 or more", not_negative);
        let probability = |key: &str| settings.get(key, "a number from 0 to 1", probability);
        let own = default.options;
        // Sampling that is switched off takes the most probable token, whatever the other keys say.
        let is_greedy = settings.get("do_sample", "true or false", Value::as_bool)? == Some(false);
        let temperature = number("temperature")?.map_or(own.temperature, |number| number as f32);
        let end_ids = settings.get("eos_token_id", "an id or a list of ids", ids)?.unwrap_or(default.end_ids);
        let max_new = settings.get("max_new_tokens", "a whole number of 1 or more", positive)?;
        let max_length = settings.get("max_length", "a whole number of 1 or more", positive)?;
        let options = GenerateOptions {
            temperature: if is_greedy { 0.0 } else { temperature },
            top_k: settings.get("top_k", "a whole number", size)?.unwrap_or(own.top_k),
            top_p: probability("top_p")?.unwrap_or(own.top_p),
            min_p: probability("min_p")?.unwrap_or(own.min_p),
            repetition_penalty: settings
                .get("repetition_penalty", "a positive number", penalty)?
                .unwrap_or(own.repetition_penalty),
            no_repeat_ngram: settings
                .get("no_repeat_ngram_size", "a whole number", size)?
                .unwrap_or(own.no_repeat_ngram),
            max_new_tokens: max_new.or(own.max_new_tokens),
            min_new_tokens: settings
                .get("min_new_tokens", "a whole number", size)?
                .unwrap_or(own.min_new_tokens),
            stop: settings.get("stop_strings", "a string or a list of strings", texts)?.unwrap_or(own.stop),
            beam_size: settings
                .get("num_beams", "a whole number of 1 or more", positive)?
                .unwrap_or(own.beam_size),
            n_samples: settings
                .get("num_return_sequences", "a whole number of 1 or more", positive)?
                .unwrap_or(own.n_samples),
            ..own
        };
        let notes = settings
            .unsupported(UNSUPPORTED)
            .map(|(found, reason)| format!("{found}: {reason}, so the setting is ignored"))
            .collect();
        Ok(Self {
            options,
            max_length: if max_new.is_some() { None } else { max_length },
            rules: settings.rules(default.rules, &end_ids, end_ids[0])?,
            length_penalty: settings
                .get("length_penalty", "a number", Value::as_f64)?
                .unwrap_or(default.length_penalty),
            early_stopping: settings
                .get("early_stopping", "true, false or \"never\"", stopping)?
                .unwrap_or(default.early_stopping),
            start_id: settings.get("bos_token_id", "an id", id)?.or(default.start_id),
            end_ids,
            notes,
        })
    }
}

fn not_negative(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| *number >= 0.0 && number.is_finite())
}

fn probability(value: &Value) -> Option<f32> {
    value.as_f64().filter(|number| (0.0..=1.0).contains(number)).map(|number| number as f32)
}

/// A string, or a list of strings, none of them empty.
fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match value {
        Value::Array(all) => all.iter().map(text).collect(),
        _ => Some(vec![text(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GenerationSettings> {
        let map = serde_json::from_str(text).unwrap();
        let settings = Settings::new("generation_config.json".into(), map);
        let special = SpecialIds { pad_id: 0, end_id: 2, start_id: 1 };
        GenerationSettings::over(&settings, GenerationSettings::of(special))
    }

    #[test]
    fn keys_mean_what_they_mean_to_hugging_face() {
        let found = read(
            r#"{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1,
                "eos_token_id": [7, 9], "bos_token_id": 1, "max_length": 400, "no_repeat_ngram_size": 3,
                "bad_words_ids": [[4, 5]], "stop_strings": "END"}"#,
        )
        .unwrap();
        let GenerateOptions { temperature, top_k, top_p, min_p, .. } = found.options;
        assert_eq!((temperature, top_k, top_p, min_p), (0.6, 20, 0.9, 0.05));
        assert_eq!((found.options.repetition_penalty, found.options.no_repeat_ngram), (1.1, 3));
        assert_eq!((found.end_ids, found.start_id, found.max_length), (vec![7, 9], Some(1), Some(400)));
        assert_eq!((found.rules.other_end_ids, found.rules.suppressed), (vec![9], vec![vec![4, 5]]));
        assert_eq!((found.options.stop, found.notes.len()), (vec!["END".to_owned()], 0));
        let new = read(r#"{"max_new_tokens": 30, "max_length": 400}"#).unwrap();
        assert_eq!((new.options.max_new_tokens, new.max_length), (Some(30), None));
    }

    #[test]
    fn without_sampling_the_most_probable_token_is_taken() {
        assert_eq!(read(r#"{"do_sample": false, "temperature": 0.7}"#).unwrap().options.temperature, 0.0);
        assert_eq!(read("{}").unwrap().options, GenerateOptions::default());
    }

    #[test]
    fn what_cannot_be_honoured_is_said_and_what_is_wrong_refused() {
        let found =
            read(r#"{"typical_p": 0.5, "guidance_scale": 1.0, "watermarking_config": null}"#).unwrap();
        assert_eq!(
            found.notes,
            ["typical_p is 0.5, expected 1: typical sampling is not supported, so the setting is ignored"]
        );
        for (text, message) in [
            (r#"{"temperature": -1}"#, "temperature is -1, expected a number of 0 or more"),
            (r#"{"top_p": 1.5}"#, "top_p is 1.5, expected a number from 0 to 1"),
            (r#"{"do_sample": 1}"#, "do_sample is 1, expected true or false"),
            (r#"{"stop_strings": [""]}"#, "stop_strings is [\"\"], expected a string or a list"),
            (r#"{"eos_token_id": "x"}"#, "eos_token_id is \"x\", expected an id or a list of ids"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
