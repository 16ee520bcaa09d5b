//! The settings of a speech recogniser's folder: `generation_config.json`, as Whisper's class reads it.
//!
//! The tokens that a text begins with say its language, the task, and whether there are timestamps.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_models::SpeechRecognizer;
use polyhead_models::decode::rules::Timestamps;
use serde_json::Value;

use crate::encoded_text::TextSettings;
use crate::settings::{Settings, size};
use crate::{Error, Result};

/// The settings of a folder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpeechSettings {
    /// Ids of languages by their codes, such as `en`; empty for a model of one language.
    pub(super) languages: BTreeMap<String, u32>,
    /// Ids of tasks: `transcribe`, `translate`.
    pub(super) tasks: BTreeMap<String, u32>,
    /// Tokens that a text begins with where the model has no languages (`forced_decoder_ids`).
    pub(super) forced: Vec<u32>,
    /// The token before timestamps, which means that there are none.
    pub(super) no_timestamps: Option<u32>,
    /// The largest first timestamp.
    pub(super) max_initial_timestamp: Option<usize>,
    /// Decoder layers and heads that align text and sound (`alignment_heads`); default: all heads of the later half of layers.
    pub(super) alignment_heads: Vec<[usize; 2]>,
    /// Rules, lengths and search.
    pub(super) text: TextSettings,
}

impl SpeechSettings {
    /// Reads the settings of a folder.
    pub(super) fn load(folder: &Path, model: &SpeechRecognizer) -> Result<Self> {
        let config = model.config();
        let path = folder.join("generation_config.json");
        let mut found = Self {
            languages: BTreeMap::new(),
            tasks: BTreeMap::new(),
            forced: Vec::new(),
            no_timestamps: None,
            max_initial_timestamp: None,
            alignment_heads: Vec::new(),
            text: TextSettings::new(config.max_len),
        };
        if !path.exists() {
            return Ok(found);
        }
        let settings = Settings::load(path.clone())?;
        let table = "an object of names and ids";
        found.languages = settings.get("lang_to_id", table, |value| named(value, plain))?.unwrap_or_default();
        found.tasks =
            settings.get("task_to_id", table, |value| named(value, str::to_owned))?.unwrap_or_default();
        let forced = "a list of pairs of a position from 1 on and an id";
        found.forced = settings.get("forced_decoder_ids", forced, forced_ids)?.unwrap_or_default();
        let number = "a whole number";
        found.no_timestamps =
            settings.get("no_timestamps_token_id", "an id", size)?.and_then(|id| u32::try_from(id).ok());
        found.max_initial_timestamp = settings.get("max_initial_timestamp_index", number, size)?;
        let heads = settings.get("alignment_heads", "a list of pairs of a layer and a head", pairs)?;
        found.alignment_heads = heads.unwrap_or_default();
        found.text = TextSettings::read(&settings, config.end_id, config.max_len)?;
        found.check(&path, model)?;
        Ok(found)
    }

    /// An error if an id or head is not the model's.
    fn check(&self, path: &Path, model: &SpeechRecognizer) -> Result<()> {
        let config = model.config();
        let ids =
            self.languages.values().chain(self.tasks.values()).chain(&self.forced).chain(&self.no_timestamps);
        if let Some(id) = ids.into_iter().find(|id| **id as usize >= config.vocab_size) {
            let message =
                format!("token {id}, expected an id below the vocabulary size {}", config.vocab_size);
            return Err(Error::file(path, message, "does the file belong to another model?"));
        }
        let [n_layers, n_heads] = [config.decoder.n_layers, config.decoder.n_heads];
        if let Some([layer, head]) =
            self.alignment_heads.iter().find(|[layer, head]| *layer >= n_layers || *head >= n_heads)
        {
            let message = format!(
                "alignment_heads has head {head} of layer {layer}, expected {n_heads} heads of {n_layers} layers"
            );
            return Err(Error::file(path, message, "does the file belong to another model?"));
        }
        Ok(())
    }

    /// The rules of timestamps, if the model writes them.
    pub(super) fn timestamps(&self) -> Option<Timestamps> {
        self.no_timestamps.map(|id| Timestamps { first_id: id + 1, max_initial: self.max_initial_timestamp })
    }

    /// The id of a language.
    ///
    /// # Errors
    /// If the model does not know it.
    pub(super) fn language(&self, code: &str) -> Result<u32> {
        if self.languages.is_empty() {
            return Err(Error::request(
                format!("language {code:?}, but this model has one language"),
                "leave --language out",
            ));
        }
        self.languages.get(&code.to_lowercase()).copied().ok_or_else(|| {
            let known: Vec<&str> = self.languages.keys().map(String::as_str).collect();
            Error::request(
                format!("language {code:?}, expected one of {}", known.join(", ")),
                "without --language, the language is detected",
            )
        })
    }
}

/// `en` of `<|en|>`.
fn plain(name: &str) -> String {
    name.trim_start_matches("<|").trim_end_matches("|>").to_owned()
}

fn named(value: &Value, name: impl Fn(&str) -> String) -> Option<BTreeMap<String, u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    value.as_object()?.iter().map(|(key, value)| Some((name(key), id(value)?))).collect()
}

/// Ids of positions 1, 2, …; a position without an id (a language to be detected) is left out.
fn forced_ids(value: &Value) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for (index, pair) in value.as_array()?.iter().enumerate() {
        let [position, id] = pair.as_array()?.as_slice() else { return None };
        if position.as_u64()? as usize != index + 1 {
            return None;
        }
        if !id.is_null() {
            found.push(u32::try_from(id.as_u64()?).ok()?);
        }
    }
    Some(found)
}

fn pairs(value: &Value) -> Option<Vec<[usize; 2]>> {
    let pair = |value: &Value| {
        <[usize; 2]>::try_from(value.as_array()?.iter().map(size).collect::<Option<Vec<_>>>()?).ok()
    };
    value.as_array()?.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use polyhead_models::speech::SpeechConfig;
    use polyhead_tensor::Parameters;

    use super::*;

    #[test]
    fn keys_of_whisper_are_read_and_wrong_ones_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generation_config.json");
        let config = SpeechConfig { vocab_size: 60, ..SpeechConfig::default() };
        let model = SpeechRecognizer::new(&config, &mut Parameters::default()).unwrap();
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            SpeechSettings::load(folder.path(), &model)
        };
        let found = read(
            r#"{"lang_to_id": {"<|en|>": 51, "<|de|>": 52}, "task_to_id": {"transcribe": 53}, "no_timestamps_token_id": 54,
                "forced_decoder_ids": [[1, null], [2, 53]], "alignment_heads": [[1, 0]], "suppress_tokens": [3],
                "begin_suppress_tokens": [4], "max_initial_timestamp_index": 50, "max_length": 448}"#,
        )
        .unwrap();
        assert_eq!((found.languages["en"], found.language("DE").unwrap()), (51, 52));
        assert_eq!((found.forced.as_slice(), found.alignment_heads.as_slice()), (&[53][..], &[[1, 0]][..]));
        assert_eq!(found.timestamps(), Some(Timestamps { first_id: 55, max_initial: Some(50) }));
        assert_eq!(
            (found.text.rules.forbidden.as_slice(), found.text.rules.forbidden_first.as_slice()),
            (&[3][..], &[4][..])
        );
        let error = found.language("fr").unwrap_err().to_string();
        assert_eq!(error, "language \"fr\", expected one of de, en");
        for (text, message) in [
            (r#"{"lang_to_id": {"<|en|>": 60}}"#, "token 60, expected an id below the vocabulary size 60"),
            (r#"{"alignment_heads": [[3, 0]]}"#, "alignment_heads has head 0 of layer 3"),
            (
                r#"{"forced_decoder_ids": [[2, 5]]}"#,
                "forced_decoder_ids is [[2,5]], expected a list of pairs",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
