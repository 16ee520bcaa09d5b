//! What a model folder says about its model: `config.json` of Hugging Face's Marian or our own, or fairseq's `args.json`.

mod fairseq;
mod keys;
mod marian;
mod own;

use std::borrow::Borrow;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::names::Layout;
use super::safetensors::Weights;
use crate::{Error, ModelConfig, Result};

pub use marian::marian_compatible;
pub(super) use marian::{generation_text, text as marian_text};

pub(super) const CONFIG: &str = "config.json";
pub(super) const ARGS: &str = "args.json";

/// The config of a folder and whose names its weights have.
pub(super) fn read(folder: &Path) -> Result<(ModelConfig, Layout)> {
    read_beside(folder, || Weights::open(folder))
}

/// As [`read`], without a look at the weights; Marian models are taken to have the bias that transformers gives them.
pub(super) fn read_alone(folder: &Path) -> Result<(ModelConfig, Layout)> {
    let (mut config, layout) = read_beside(folder, || Weights::none(folder))?;
    if let ModelConfig::Transformer(own) = &mut config {
        own.output_bias |= layout == Layout::Marian;
    }
    Ok((config, layout))
}

fn read_beside(folder: &Path, weights: impl FnOnce() -> Result<Weights>) -> Result<(ModelConfig, Layout)> {
    let paths = [CONFIG, ARGS].map(|name| folder.join(name));
    let Some(path) = paths.iter().find(|path| path.exists()) else {
        let message = format!("neither {CONFIG} nor {ARGS} is there");
        let model = folder.join("model");
        let hint = if model.join(CONFIG).exists() {
            format!("this is the folder of a run: its model is {}", model.display())
        } else {
            "is this the folder of a model?".into()
        };
        return Err(Error::file(folder, message, hint));
    };
    let text = fs::read(path).map_err(|error| Error::io(path, "read", error))?;
    parse(path, &text, weights)
}

/// The config in `text`, validated; `weights` are only asked for where it leaves something open.
pub(super) fn parse<W: Borrow<Weights>>(
    path: &Path,
    text: &[u8],
    weights: impl FnOnce() -> Result<W>,
) -> Result<(ModelConfig, Layout)> {
    let map: Map<String, Value> = serde_json::from_slice(text)
        .map_err(|error| Error::file(path, format!("no JSON object: {error}"), "fetch the file again"))?;
    let (config, layout) = if path.ends_with(ARGS) {
        (fairseq::read(path, map, weights()?.borrow())?.into(), Layout::Fairseq)
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
) -> Result<(ModelConfig, Layout)> {
    let model_type = map.get("model_type").and_then(Value::as_str).map(str::to_owned);
    match model_type.as_deref() {
        Some("marian") => Ok((marian::read(path, map, weights()?.borrow())?.into(), Layout::Marian)),
        Some(name) if let Some(family) = ModelConfig::of_type(name) => {
            let (config, layout) = own::read(path, &family, map)?;
            let layout = match layout {
                Some(layout) => layout,
                None => Layout::recognise(weights()?.borrow().names()),
            };
            Ok((config, layout))
        }
        other => {
            let found =
                other.map_or_else(|| "no model_type".to_owned(), |name| format!("model_type {name:?}"));
            let own = ModelConfig::model_types().map(|name| format!("{name:?}")).join(", ");
            let message = format!("{found}, expected \"marian\" or one of {own}");
            Err(Error::file(path, message, "other architectures are not read"))
        }
    }
}
