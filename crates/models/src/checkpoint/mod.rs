//! Model folders: a config and weights on disk ↔ [`ModelConfig`] and [`Parameters`].
//!
//! ```text
//! config.json | args.json → config/ → ModelConfig → (the model declares its parameters)
//! model*.safetensors → safetensors/ → arrays by name → names/ → Parameters
//! ```
//!
//! Read are folders of Hugging Face's Marian, of fairseq (converted to safetensors), of PyTorch's nn.Transformer and our
//! own; see [`Layout`]. A folder of ours has its config last, so a folder with a config is complete.

mod config;
mod names;
pub mod safetensors;

use std::path::{Path, PathBuf};

use polyhead_tensor::{Parameters, Precision};

use self::safetensors::{Dtype, Weights, WriteOptions};
use crate::{Model, ModelConfig, Result};

pub use config::marian_compatible;
pub use names::Layout;

/// A model with its values, as read from a folder.
#[derive(Debug)]
pub struct Checkpoint {
    /// The model.
    pub model: Model,
    /// Its values.
    pub parameters: Parameters,
    /// What was read.
    pub loaded: Loaded,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Whose names the arrays have.
    pub layout: Layout,
    /// The types of numbers in the files.
    pub dtypes: Vec<Dtype>,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Their size in all.
    pub bytes: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The files, the config last.
    pub files: Vec<PathBuf>,
    /// Their size in all.
    pub bytes: u64,
}

/// How a model is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveOptions {
    /// How numbers are stored: F32, or rounded to the nearest F16 or BF16; F32.
    pub dtype: Dtype,
    /// Whose names the arrays get, and whose config the folder; our own.
    pub layout: Layout,
    /// Weights beyond this many bytes go to several files; 5 GB.
    pub max_shard_bytes: u64,
}

impl Default for SaveOptions {
    fn default() -> Self {
        let WriteOptions { dtype, max_shard_bytes } = WriteOptions::default();
        Self { dtype, layout: Layout::default(), max_shard_bytes }
    }
}

/// The model of a folder. With a precision it is for inference: weights of products are prepared one by one as they come, so
/// that the model is never in memory twice, and weights that are int8 in the file stay so.
///
/// # Errors
/// If the folder holds no model that is known, or its weights are not those of the model.
pub fn load(folder: impl AsRef<Path>, precision: Option<Precision>) -> Result<Checkpoint> {
    let folder = folder.as_ref();
    let (config, layout) = read_config(folder)?;
    let mut parameters = Parameters::default();
    let model = Model::new(&config, &mut parameters)?;
    let weights = Weights::open(folder)?;
    names::read(&weights, &config, layout, &mut parameters, precision)?;
    let loaded = loaded(&weights, layout);
    Ok(Checkpoint { model, parameters, loaded })
}

/// The config of a folder, validated, and whose names its weights have.
pub fn read_config(folder: impl AsRef<Path>) -> Result<(ModelConfig, Layout)> {
    config::read(folder.as_ref())
}

/// As [`read_config`] for a folder whose weights are not there, as far as its config tells.
pub fn read_config_alone(folder: impl AsRef<Path>) -> Result<(ModelConfig, Layout)> {
    config::read_alone(folder.as_ref())
}

/// Checks that the weights of a folder are those of all declared parameters; only headers are read.
///
/// # Errors
/// If an array is missing, has another shape, or belongs to no parameter.
pub fn check_weights(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    layout: Layout,
    parameters: &Parameters,
) -> Result<Loaded> {
    let weights = Weights::open(folder)?;
    names::check(&weights, &config.into(), layout, parameters)?;
    Ok(loaded(&weights, layout))
}

/// As [`read_config`] from a text in memory; `name` stands for the path in messages, and `args.json` at its end means fairseq's.
///
/// ```
/// use polyhead_models::checkpoint::safetensors::{TensorFile, Weights};
/// use polyhead_models::checkpoint::{Layout, parse_config};
/// let weights = Weights::whole(TensorFile::from_bytes("none", [&2_u64.to_le_bytes()[..], b"{}"].concat())?);
/// let text = br#"{"model_type":"polyhead_transformer","source_vocab_size":9,"target_vocab_size":9}"#;
/// let (config, layout) = parse_config("config.json", text, &weights)?;
/// assert_eq!((config.vocab_sizes(), config.d_model(), layout), ([9, 9], 512, Layout::Polyhead));
/// # Ok::<(), polyhead_models::Error>(())
/// ```
pub fn parse_config(name: impl AsRef<Path>, text: &[u8], weights: &Weights) -> Result<(ModelConfig, Layout)> {
    config::parse(name.as_ref(), text, || Ok(weights))
}

/// Gives all declared parameters their values from the weights of a folder.
///
/// # Errors
/// If an array is missing, has another shape, belongs to no parameter, or differs from a copy of itself. Parameters may
/// have been changed then.
pub fn load_parameters(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Loaded> {
    let weights = Weights::open(folder)?;
    names::read(&weights, &config.into(), layout, parameters, None)?;
    Ok(loaded(&weights, layout))
}

/// Writes a model into a folder, which is made if need be; other files there stay, older weights go.
///
/// # Panics
/// If a parameter was never given a value.
pub fn save(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    parameters: &Parameters,
    options: &SaveOptions,
) -> Result<Saved> {
    let (folder, config) = (folder.as_ref(), &config.into());
    config.validate()?;
    let mut texts = Vec::new();
    if options.layout == Layout::Marian {
        let config = &config.clone().try_into()?;
        let text = config::marian_text(folder, config, options.dtype)?;
        texts.push(("generation_config.json", config::generation_text(config)));
        texts.push((config::CONFIG, text));
    } else {
        texts.push((config::CONFIG, config.file_text(options.layout)));
    }
    let arrays = names::arrays(options.layout, config, parameters)?;
    let SaveOptions { dtype, max_shard_bytes, .. } = *options;
    let mut unfinished = safetensors::write(folder, arrays, WriteOptions { dtype, max_shard_bytes })?;
    for (name, text) in texts {
        unfinished.add(name, text.as_bytes())?;
    }
    let bytes = unfinished.bytes();
    Ok(Saved { files: unfinished.finish()?, bytes })
}

fn loaded(weights: &Weights, layout: Layout) -> Loaded {
    let mut dtypes: Vec<Dtype> = weights.names().filter_map(|name| weights.dtype(name)).collect();
    dtypes.sort();
    dtypes.dedup();
    let files = weights.files();
    Loaded {
        layout,
        dtypes,
        files: files.iter().map(|file| file.path().to_owned()).collect(),
        bytes: files.iter().map(|file| file.size() as u64).sum(),
    }
}
