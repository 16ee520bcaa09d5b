//! A model folder: the model with its weights, and the files beside config and weights.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use polyhead_engine::encoder::modules::SentenceModules;
use polyhead_models::checkpoint::{Checkpoint, check_weights, load, read_config, single};
use polyhead_models::{Model, View};
use polyhead_tensor::Dtype;
use polyhead_tensor::{Device, Parameters};
use polyhead_text::tokenizer::fairseq_dictionary::{dictionary_language, is_codes};
use polyhead_train::checkpoint::Checkpoints;
use serde_json::{Map, Value};

use crate::installed_models;
use crate::report::{Failure, counted, detail, note};

pub(crate) const GENERATION: &str = "generation_config.json";

/// Files beside config and weights that belong to a model; fairseq dictionaries and codes come on top.
const SIDECAR_FILES: &[&str] = &[
    "README.md",
    "added_tokens.json",
    "args.json",
    "chat_template.jinja",
    "chat_template.json",
    "config_sentence_transformers.json",
    GENERATION,
    "merges.txt",
    "modules.json",
    polyhead_engine::image::PREPROCESSOR,
    polyhead_models::checkpoint::shortlist::SHORTLIST,
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "source.json",
    "source.spm",
    "special_tokens_map.json",
    "target.json",
    "target.spm",
    "target_vocab.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

/// Generation settings that older folders hold in `config.json`.
const GENERATION_KEYS: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "pad_token_id",
    "renormalize_logits",
    "repetition_penalty",
    "sequence_bias",
    "suppress_tokens",
];

/// Loads the model of a folder.
pub(crate) fn load_model(folder: &Path) -> Result<Checkpoint> {
    if !single::is_single_file(folder) {
        check_folder(folder)?;
    }
    let start = Instant::now();
    let found = load(folder, None)?;
    report_loaded(folder, &Device::Cpu, "f32", start);
    Ok(found)
}

/// With `--verbose`, prints what was loaded: folder, layout, parameters, dtype, device, threads and time.
pub(crate) fn report_loaded(folder: &Path, device: &Device, dtype: &str, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    detail(|| {
        let (model, is_int8) = described(folder).unwrap_or_default();
        format!(
            "loaded {}: {model}{} on {}, {}, in {seconds:.2} s",
            folder.display(),
            if is_int8 { "int8" } else { dtype },
            device.name(),
            counted(rayon::current_num_threads() as u64, "thread")
        )
    });
}

/// Layout and number of parameters of a model as text; true if its weights are int8.
fn described(folder: &Path) -> Result<(String, bool)> {
    let (config, layout) = read_config(folder)?;
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters)?;
    let stored = check_weights(folder, &config, layout, &parameters)?;
    let text = format!("{layout} layout, {}, ", counted(parameters.count() as u64, "parameter"));
    Ok((text, stored.dtypes.contains(&Dtype::Int8)))
}

/// The model folder that `named` stands for: itself; of a run folder the finished model, otherwise the newest checkpoint;
/// or the installed model of this name.
pub(crate) fn resolve(named: &Path) -> Result<PathBuf> {
    if is_model(named) || single::is_single_file(named) {
        return Ok(named.to_owned());
    }
    if !named.exists() {
        return installed_models::find(named).map_or_else(|| Err(missing(named)), Ok);
    }
    let finished = named.join("model");
    if is_model(&finished) {
        note(&format!("using {}, the finished model of the run", finished.display()));
        return Ok(finished);
    }
    let checkpoints = Checkpoints::of_run(named);
    match checkpoints.steps().last() {
        Some(&step) => {
            let folder = checkpoints.path(step);
            note(&format!(
                "using {}, the newest checkpoint of the run: training has not finished",
                folder.display()
            ));
            Ok(folder)
        }
        None if named.join("run.json").is_file() => Err(Failure {
            message: format!("{}: a run without a checkpoint, expected a model", named.display()),
            hint: format!("train it further: polyhead train {} --resume", named.display()),
        }
        .into()),
        None => Ok(named.to_owned()),
    }
}

/// True for a folder with a model's config.
fn is_model(folder: &Path) -> bool {
    ["config.json", "args.json"].iter().any(|name| folder.join(name).is_file())
}

/// An error unless `folder` has a config and weights that fit it.
pub(crate) fn check_model(folder: &Path) -> Result<()> {
    check_folder(folder)?;
    described(folder).map(drop)
}

/// An error unless `folder` is a folder.
pub(crate) fn check_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if !folder.exists() {
        return Err(missing(folder));
    }
    Err(Failure {
        message: format!("{}: a file, expected a model folder", folder.display()),
        hint: "name the folder that contains it".into(),
    }
    .into())
}

/// What the model of a folder does. A folder of sentence-transformers may have its config in a folder of its own.
pub(crate) fn view(folder: &Path) -> Result<View> {
    match SentenceModules::of_folder(folder)? {
        Some(_) => Ok(View::Encoder),
        None => Ok(read_config(folder)?.0.view()),
    }
}

/// The error of a model that is neither a folder nor installed.
fn missing(folder: &Path) -> anyhow::Error {
    Failure {
        message: format!("{}: no such folder, expected a model folder", folder.display()),
        hint: "check the spelling and the current folder; polyhead models list shows installed models".into(),
    }
    .into()
}

/// The files of a model folder beside config and weights (tokeniser, generation settings, README), sorted by name.
pub(crate) fn sidecar_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let unread = |error| polyhead_text::Error::io(folder, "read", error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let name = file_name(&path);
        if path.is_file()
            && (SIDECAR_FILES.contains(&name.as_str())
                || dictionary_language(&name).is_some()
                || is_codes(&name))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The files of the modules beside the model, as sentence-transformers lists them in `modules.json`, with their paths in the
/// folder; none without the list.
pub(crate) fn module_files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let path = folder.join("modules.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let unread = |error| polyhead_text::Error::io(&path, "read", error);
    let text = polyhead_text::whole::read(&path, polyhead_text::whole::MAX_SETTINGS).map_err(unread)?;
    let modules: Vec<Map<String, Value>> = serde_json::from_slice(&text).map_err(|error| Failure {
        message: format!("{}: {error}, expected a list of modules", path.display()),
        hint: "correct the file, or download it again".into(),
    })?;
    let mut found = Vec::new();
    for module in
        modules.iter().filter_map(|module| module.get("path")?.as_str()).filter(|path| !path.is_empty())
    {
        let own = folder.join(module);
        let is_inside =
            Path::new(module).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside || !own.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&own).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if path.is_file() {
                found.push((format!("{module}/{}", file_name(&path)), path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The last component of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a model: that of its folder, also where the path is `.`.
pub(crate) fn model_name(folder: &Path) -> String {
    file_name(&folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
}

/// Generation settings: `generation_config.json`, else those in `config.json`.
pub(crate) fn generation(folder: &Path) -> Result<Option<Map<String, Value>>> {
    if let Some(mut settings) = object(&folder.join(GENERATION))? {
        settings.retain(|key, _| key != "transformers_version" && key != "_from_model_config");
        return Ok(Some(settings));
    }
    let mut config = object(&folder.join("config.json"))?.unwrap_or_default();
    // Token ids alone are no settings: every config has them.
    let any = ["bad_words_ids", "max_length", "num_beams"].iter().any(|key| config.contains_key(*key));
    config.retain(|key, value| GENERATION_KEYS.contains(&key.as_str()) && !value.is_null());
    Ok(any.then_some(config))
}

/// The JSON object in a file; none if there is no such file.
pub(crate) fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = polyhead_text::whole::read(path, polyhead_text::whole::MAX_SETTINGS)
        .map_err(|error| polyhead_text::Error::io(path, "read", error))?;
    let object = serde_json::from_slice(&text).map_err(|error| Failure {
        message: format!("{}: {error}, expected a JSON object", path.display()),
        hint: "correct the file, or download it again".into(),
    })?;
    Ok(Some(object))
}
