//! A model folder as the commands see it: the model with its values, and the files beside config and weights.

use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_models::checkpoint::{Checkpoint, load};
use polyhead_text::tokenizer::fairseq_dictionary::{dictionary_language, is_codes};
use serde_json::{Map, Value};

use crate::report::Failure;

pub(crate) const GENERATION: &str = "generation_config.json";

/// Files beside config and weights that belong to a model; besides, dictionaries and codes of fairseq.
const COMPANIONS: &[&str] = &[
    "README.md",
    "args.json",
    GENERATION,
    "source.json",
    "source.spm",
    "special_tokens_map.json",
    "target.json",
    "target.spm",
    "target_vocab.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
];

/// Settings of generation that older folders keep in `config.json`.
const GENERATION_KEYS: &[&str] = &[
    "bad_words_ids",
    "bos_token_id",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beams",
    "pad_token_id",
    "repetition_penalty",
];

/// Reads the model of a folder.
pub(crate) fn load_model(folder: &Path) -> Result<Checkpoint> {
    check_folder(folder)?;
    Ok(load(folder, None)?)
}

/// An error unless `folder` is a folder.
pub(crate) fn check_folder(folder: &Path) -> Result<()> {
    let (found, hint) = if folder.is_dir() {
        return Ok(());
    } else if folder.exists() {
        ("a file", "name the folder it lies in")
    } else {
        ("no such folder", "check the spelling and the current folder")
    };
    let message = format!("{}: {found}, expected the folder of a model", folder.display());
    Err(Failure { message, hint: hint.into() }.into())
}

/// The files beside config and weights that belong to the model of a folder, by name.
pub(crate) fn companions(folder: &Path) -> Result<Vec<PathBuf>> {
    let unread = |error| polyhead_text::Error::io(folder, "read", error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let name = file_name(&path);
        if path.is_file()
            && (COMPANIONS.contains(&name.as_str())
                || dictionary_language(&name).is_some()
                || is_codes(&name))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The last part of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a model is called: the name of its folder, however that was written.
pub(crate) fn model_name(folder: &Path) -> String {
    file_name(&folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
}

/// Settings of generation: `generation_config.json`, else what `config.json` says about it.
pub(crate) fn generation(folder: &Path) -> Result<Option<Map<String, Value>>> {
    if let Some(mut settings) = object(&folder.join(GENERATION))? {
        settings.retain(|key, _| key != "transformers_version" && key != "_from_model_config");
        return Ok(Some(settings));
    }
    let mut config = object(&folder.join("config.json"))?.unwrap_or_default();
    // Ids alone are no settings: every config has them.
    let any = ["bad_words_ids", "max_length", "num_beams"].iter().any(|key| config.contains_key(*key));
    config.retain(|key, value| GENERATION_KEYS.contains(&key.as_str()) && !value.is_null());
    Ok(any.then_some(config))
}

/// The JSON object of a file, if there is such a file.
pub(crate) fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read(path).map_err(|error| polyhead_text::Error::io(path, "read", error))?;
    let object = serde_json::from_slice(&text).map_err(|error| Failure {
        message: format!("{}: {error}, expected a JSON object", path.display()),
        hint: "correct the file or fetch it again".into(),
    })?;
    Ok(Some(object))
}
