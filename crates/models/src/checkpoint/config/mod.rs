//! The config of a model folder: `config.json` of Hugging Face's Marian, Pegasus, GPT-2, Llama, Mistral, Qwen2, BERT and its
//! successors, ViT, DeiT and Whisper, or of Polyhead, or fairseq's `args.json`.

mod bert;
mod decoder_only;
mod fairseq;
mod gpt2;
mod keys;
mod llama;
mod marian;
mod modernbert;
mod own;
mod pegasus;
mod rope;
mod vit;
mod whisper;

use std::borrow::Borrow;
use std::path::Path;

use polyhead_text::whole;
use serde_json::{Map, Value};

use super::names::CheckpointLayout;
use super::safetensors::Weights;
use crate::{Error, ModelConfig, Result};

pub(super) use bert::{text as bert_text, with_head};
pub(super) use decoder_only::text as decoder_only_text;
pub use marian::marian_compatible;
pub(super) use marian::{generation_text, text as marian_text};
pub use pegasus::pegasus_compatible;
pub(super) use pegasus::text as pegasus_text;
pub(super) use vit::text as vit_text;

/// Hugging Face's values of `model_type` that are read.
const HUGGING_FACE: &str = "\"marian\", \"pegasus\", \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"bert\", \"roberta\", \
                            \"xlm-roberta\", \"camembert\", \"distilbert\", \"mpnet\", \"modernbert\", \"vit\", \"deit\", \
                            \"whisper\"";
pub(super) const CONFIG: &str = "config.json";
pub(super) const ARGS: &str = "args.json";

/// The config of a folder and the layout of its weights.
pub(super) fn read(folder: &Path) -> Result<(ModelConfig, CheckpointLayout)> {
    read_with(folder, || Weights::open(folder))
}

/// The layout of Hugging Face's models that can represent a config.
pub(super) fn fitting(config: &ModelConfig) -> Option<CheckpointLayout> {
    decoder_only::fitting(config).or_else(|| bert::fitting(config)).or_else(|| vit::fitting(config))
}

/// Same as [`read`] without opening the weights; Marian and Pegasus models are assumed to have the bias that transformers gives them.
pub(super) fn read_without_weights(folder: &Path) -> Result<(ModelConfig, CheckpointLayout)> {
    let (mut config, layout) = read_with(folder, || Weights::none(folder))?;
    if let ModelConfig::Transformer(own) = &mut config {
        own.output_bias |= matches!(layout, CheckpointLayout::Marian | CheckpointLayout::Pegasus);
    }
    Ok((config, layout))
}

fn read_with(
    folder: &Path,
    weights: impl FnOnce() -> Result<Weights>,
) -> Result<(ModelConfig, CheckpointLayout)> {
    let paths = [CONFIG, ARGS].map(|name| folder.join(name));
    let Some(path) = paths.iter().find(|path| path.exists()) else {
        let message = format!("neither {CONFIG} nor {ARGS} is there");
        let model = folder.join("model");
        let hint = if model.join(CONFIG).exists() {
            format!("this is a run folder: its model is {}", model.display())
        } else {
            "name the folder that contains the model's config.json".into()
        };
        return Err(Error::file(folder, message, hint));
    };
    let text = whole::read(path, whole::MAX_SETTINGS).map_err(|error| Error::io(path, "read", error))?;
    parse(path, &text, weights)
}

/// The config in `text`, validated; `weights` are opened only where the config alone is not sufficient.
pub(super) fn parse<W: Borrow<Weights>>(
    path: &Path,
    text: &[u8],
    weights: impl FnOnce() -> Result<W>,
) -> Result<(ModelConfig, CheckpointLayout)> {
    let map: Map<String, Value> = serde_json::from_slice(text).map_err(|error| {
        Error::file(path, format!("not a JSON object: {error}"), "download the file again")
    })?;
    let (config, layout) = if path.ends_with(ARGS) {
        (fairseq::read(path, map, weights()?.borrow())?.into(), CheckpointLayout::Fairseq)
    } else {
        parse_config(path, map, weights)?
    };
    config.validate().map_err(|error| Error::file(path, error.to_string(), error.hint()))?;
    Ok((config, layout))
}

fn parse_config<W: Borrow<Weights>>(
    path: &Path,
    map: Map<String, Value>,
    weights: impl FnOnce() -> Result<W>,
) -> Result<(ModelConfig, CheckpointLayout)> {
    let model_type = map.get("model_type").and_then(Value::as_str).map(str::to_owned);
    match model_type.as_deref() {
        Some("marian") => {
            Ok((marian::read(path, map, weights()?.borrow())?.into(), CheckpointLayout::Marian))
        }
        Some("pegasus") => {
            Ok((pegasus::read(path, map, weights()?.borrow())?.into(), CheckpointLayout::Pegasus))
        }
        Some("whisper") => Ok((whisper::read(path, map)?.into(), CheckpointLayout::Whisper)),
        Some("gpt2") => Ok((gpt2::read(path, map)?.into(), CheckpointLayout::Gpt2)),
        Some(name) if llama::MODEL_TYPES.contains(&name) => {
            Ok((llama::read(path, name, map)?.into(), CheckpointLayout::Llama))
        }
        Some(name) if let Some(layout) = bert::layout_of(name) => {
            let weights = weights()?;
            // Without weights the config alone decides.
            let is_empty = weights.borrow().names().next().is_none();
            let has = |ending: &str| is_empty || weights.borrow().names().any(|name| name.ends_with(ending));
            Ok((bert::read(path, layout, map, &has)?.into(), layout))
        }
        Some(name @ ("vit" | "deit")) => {
            let (config, layout) = vit::read(path, name, map)?;
            Ok((config.into(), layout))
        }
        Some(name) if let Some(family) = ModelConfig::of_type(name) => {
            let (config, layout) = own::read(path, &family, map)?;
            let layout = match layout {
                Some(layout) => layout,
                None => CheckpointLayout::recognise(weights()?.borrow().names()),
            };
            Ok((config, layout))
        }
        other => {
            let found =
                other.map_or_else(|| "no model_type".to_owned(), |name| format!("model_type {name:?}"));
            let own = ModelConfig::model_types().map(|name| format!("{name:?}")).join(", ");
            let message = format!("{found}, expected {HUGGING_FACE} or one of {own}");
            Err(Error::file(path, message, "other architectures are not supported"))
        }
    }
}
