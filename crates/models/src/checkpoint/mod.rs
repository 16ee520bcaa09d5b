//! Model folders: a config and weights on disk ↔ [`ModelConfig`] and [`Parameters`].
//!
//! ```text
//! config.json | args.json → config/ → ModelConfig → (the model declares its parameters)
//! model*.safetensors → safetensors/ → named tensors → names/ → Parameters
//! ```
//!
//! Folders of Hugging Face's Marian, Pegasus, GPT-2, Llama, Mistral, Qwen2, BERT, RoBERTa, DistilBERT, MPNet, ModernBERT, ViT and DeiT, of fairseq (converted to safetensors), PyTorch's
//! nn.Transformer and Polyhead are read, and single files of llama.cpp (GGUF) and llama2.c; see [`CheckpointLayout`]. Polyhead writes the config last, so a folder with a config is complete.

mod config;
mod names;
mod pickle;
pub mod safetensors;
pub mod shortlist;
pub mod single;

use std::path::{Path, PathBuf};

use polyhead_attention::position::Sinusoidal;
use polyhead_tensor::{Dtype, Parameters};

use self::safetensors::{Array, ArrayData, Weights, WriteOptions};
use crate::encoder::EncoderHead;
use crate::transformer::TransformerConfig;
use crate::{Error, Model, ModelConfig, Result, View};

pub use config::{marian_compatible, pegasus_compatible};
pub use names::CheckpointLayout;

/// A model and its parameters, as read from a folder.
#[derive(Debug)]
pub struct Checkpoint {
    /// The model.
    pub model: Model,
    /// The values of its parameters.
    pub parameters: Parameters,
    /// The layout and the files of the checkpoint.
    pub info: CheckpointInfo,
}

/// Layout, dtypes and files of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// The naming scheme of the tensors.
    pub layout: CheckpointLayout,
    /// The dtypes in the files.
    pub dtypes: Vec<Dtype>,
    /// The weight files.
    pub files: Vec<PathBuf>,
    /// Total size in bytes.
    pub bytes: u64,
}

/// The files of a saved model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCheckpoint {
    /// The files, the config last.
    pub files: Vec<PathBuf>,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Options for saving a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveOptions {
    /// The dtype of the weights: F32, or rounded to the nearest F16 or BF16; default: F32.
    pub dtype: Dtype,
    /// The naming scheme of the tensors and the format of the config; default: Polyhead's own.
    pub layout: CheckpointLayout,
    /// Size in bytes beyond which weights are split into several files; default: 5 GB.
    pub max_shard_bytes: u64,
}

impl Default for SaveOptions {
    fn default() -> Self {
        let WriteOptions { dtype, max_shard_bytes } = WriteOptions::default();
        Self { dtype, layout: CheckpointLayout::default(), max_shard_bytes }
    }
}

/// Loads the model of a folder, or of a GGUF or llama2.c file. With a dtype the model is for inference: weights of products are prepared one by one as
/// they are read, so that the model is never in memory twice, and weights that are int8 in the file stay int8.
///
/// # Errors
/// If the folder holds no known model, or its weights do not match the config.
pub fn load(folder: impl AsRef<Path>, dtype: Option<Dtype>) -> Result<Checkpoint> {
    let folder = folder.as_ref();
    if single::is_single_file(folder) {
        return single::load(folder, dtype);
    }
    let (config, layout) = read_config(folder)?;
    let mut parameters = Parameters::default();
    let model = Model::new(&config, &mut parameters)?;
    let weights = Weights::open(folder)?;
    names::read(&weights, &config, layout, &mut parameters, dtype)?;
    let info = info(&weights, layout);
    Ok(Checkpoint { model, parameters, info })
}

/// The config of a folder, validated, and the layout of its weights.
pub fn read_config(folder: impl AsRef<Path>) -> Result<(ModelConfig, CheckpointLayout)> {
    if single::is_single_file(&folder) {
        let config: ModelConfig = single::read_config(folder.as_ref())?.into();
        let layout = CheckpointLayout::fitting(&config);
        return Ok((config, layout));
    }
    config::read(folder.as_ref())
}

/// Same as [`read_config`] for a folder without weights, as far as its config determines the model.
pub fn read_config_without_weights(folder: impl AsRef<Path>) -> Result<(ModelConfig, CheckpointLayout)> {
    config::read_without_weights(folder.as_ref())
}

/// Checks that the weights of a folder match all declared parameters; only headers are read.
///
/// # Errors
/// If a tensor is missing, has a different shape, or belongs to no parameter.
pub fn check_weights(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    layout: CheckpointLayout,
    parameters: &Parameters,
) -> Result<CheckpointInfo> {
    let weights = Weights::open(folder)?;
    names::check(&weights, &config.into(), layout, parameters)?;
    Ok(info(&weights, layout))
}

/// The config of an encoder with another head and without classes. The layers between states and head are those that other
/// programs give a model of this layout with such a head; an encoder without a head has none.
///
/// # Errors
/// If the model is no encoder, or only BERT-like encoders have such a head.
pub fn with_head(config: &ModelConfig, layout: CheckpointLayout, head: EncoderHead) -> Result<ModelConfig> {
    match config {
        ModelConfig::Bert(own) => Ok(config::with_head(own, layout, head.into()).into()),
        other if other.view() == View::Encoder && head == EncoderHead::Classes => Ok(other.clone()),
        other => Err(Error::Config {
            message: format!("a {}, expected a BERT-like encoder (model_type bert)", other.model_type()),
        }),
    }
}

/// Same as [`read_config`] from a text in memory; `name` is the path in messages, and one that ends in `args.json` means
/// fairseq's format.
///
/// ```
/// use polyhead_models::checkpoint::safetensors::{TensorFile, Weights};
/// use polyhead_models::checkpoint::{CheckpointLayout, parse_config};
/// let weights = Weights::whole(TensorFile::from_bytes("none", [&2_u64.to_le_bytes()[..], b"{}"].concat())?);
/// let text = br#"{"model_type":"polyhead_transformer","source_vocab_size":9,"target_vocab_size":9}"#;
/// let (config, layout) = parse_config("config.json", text, &weights)?;
/// assert_eq!((config.vocab_sizes(), config.d_model(), layout), ([9, 9], 512, CheckpointLayout::Polyhead));
/// # Ok::<(), polyhead_models::Error>(())
/// ```
pub fn parse_config(
    name: impl AsRef<Path>,
    text: &[u8],
    weights: &Weights,
) -> Result<(ModelConfig, CheckpointLayout)> {
    config::parse(name.as_ref(), text, || Ok(weights))
}

/// Loads the values of all declared parameters from the weights of a folder.
///
/// # Errors
/// If a tensor is missing, has a different shape, belongs to no parameter, or differs from a second copy of itself. Some
/// parameters may have been set by then.
pub fn load_parameters(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    layout: CheckpointLayout,
    parameters: &mut Parameters,
) -> Result<CheckpointInfo> {
    let weights = Weights::open(folder)?;
    names::read(&weights, &config.into(), layout, parameters, None)?;
    Ok(info(&weights, layout))
}

/// Saves a model into a folder, which is created if necessary; older weights there are removed, other files stay.
///
/// # Panics
/// If a parameter has no value.
pub fn save(
    folder: impl AsRef<Path>,
    config: impl Into<ModelConfig>,
    parameters: &Parameters,
    options: &SaveOptions,
) -> Result<SavedCheckpoint> {
    let (folder, config) = (folder.as_ref(), &config.into());
    config.validate()?;
    let mut texts = Vec::new();
    let mut positions = None;
    if matches!(options.layout, CheckpointLayout::Marian | CheckpointLayout::Pegasus) {
        let config: &TransformerConfig = &config.clone().try_into()?;
        let text = if options.layout == CheckpointLayout::Marian {
            config::marian_text(folder, config, options.dtype)?
        } else {
            // transformers computes the positions of Marian models, but reads those of Pegasus models.
            positions = Some(Sinusoidal::default().table(config.max_len, config.d_model));
            config::pegasus_text(folder, config, options.dtype)?
        };
        texts.push(("generation_config.json", config::generation_text(config)));
        texts.push((config::CONFIG, text));
    } else if matches!(options.layout, CheckpointLayout::Gpt2 | CheckpointLayout::Llama) {
        let own = &config.clone().try_into()?;
        let text = config::decoder_only_text(folder, own, (options.layout, options.dtype))?;
        texts.push((config::CONFIG, text));
    } else if CheckpointLayout::ENCODERS.contains(&options.layout) {
        let own = &config.clone().try_into()?;
        texts.push((config::CONFIG, config::bert_text(folder, own, (options.layout, options.dtype))?));
    } else if CheckpointLayout::IMAGES.contains(&options.layout) {
        let own = &config.clone().try_into()?;
        texts.push((config::CONFIG, config::vit_text(folder, own, (options.layout, options.dtype))?));
    } else {
        texts.push((config::CONFIG, config.file_text(options.layout)));
    }
    let mut tensors = names::tensors(options.layout, config, parameters)?;
    if let Some(table) = &positions {
        tensors.extend(["encoder", "decoder"].map(|stack| Array {
            name: format!("model.{stack}.embed_positions.weight"),
            shape: table.shape().to_vec(),
            data: ArrayData::Floats(vec![table.data()]),
        }));
    }
    let SaveOptions { dtype, max_shard_bytes, .. } = *options;
    let mut pending = safetensors::write(folder, tensors, WriteOptions { dtype, max_shard_bytes })?;
    for (name, text) in texts {
        pending.add(name, text.as_bytes())?;
    }
    let bytes = pending.bytes();
    Ok(SavedCheckpoint { files: pending.finish()?, bytes })
}

fn info(weights: &Weights, layout: CheckpointLayout) -> CheckpointInfo {
    let mut dtypes: Vec<Dtype> = weights.names().filter_map(|name| weights.dtype(name)).collect();
    dtypes.sort();
    dtypes.dedup();
    let files = weights.files();
    CheckpointInfo {
        layout,
        dtypes,
        files: files.iter().map(|file| file.path().to_owned()).collect(),
        bytes: files.iter().map(|file| file.size() as u64).sum(),
    }
}
