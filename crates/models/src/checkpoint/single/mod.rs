//! Models in one file: GGUF (llama.cpp) and llama2.c's `.bin`, read only.
//!
//! A reader gives a config and named tensors, both under GGUF's names; `load` assembles the parameters of a decoder-only
//! Transformer from them. Both formats store queries and keys with neighbouring rotary pairs for Llama models; they are
//! reordered to pairs of halves, as in Hugging Face's folders.

mod bytes;
mod gguf;
mod gguf_config;
mod llama2c;
mod tensors;
mod tokenizer;

use std::path::Path;

use polyhead_tensor::{Dtype, Parameters, Tensor};

use self::bytes::Mapped;
use self::tensors::{Blocks, Tensors};
use super::{Checkpoint, CheckpointInfo, CheckpointLayout};
use crate::transformer::TransformerLanguageModelConfig;
use crate::{Error, Model, Result};

pub use gguf_config::GgufTokenizer;

/// A model as a file describes it.
pub(super) struct SingleFile {
    config: TransformerLanguageModelConfig,
    tensors: Tensors,
    tokenizer: Option<GgufTokenizer>,
}

/// True if `path` is a file that may be a model: one that ends in `.gguf` or `.bin`.
pub fn is_single_file(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let ending = path.extension().and_then(|ending| ending.to_str());
    path.is_file() && matches!(ending, Some("gguf" | "bin"))
}

fn open(path: &Path) -> Result<SingleFile> {
    let file = Mapped::open(path)?;
    if file.bytes().starts_with(gguf::MAGIC) { gguf_config::open(file) } else { llama2c::open(file) }
}

/// The config of a file.
pub(super) fn read_config(path: &Path) -> Result<TransformerLanguageModelConfig> {
    let SingleFile { config, .. } = open(path)?;
    config.validate().map_err(|error| Error::file(path, error.to_string(), error.hint()))?;
    Ok(config)
}

/// The tokeniser inside a GGUF file; `None` if the format has none.
///
/// # Errors
/// If the file cannot be read.
pub fn tokenizer(path: impl AsRef<Path>) -> Result<Option<GgufTokenizer>> {
    Ok(open(path.as_ref())?.tokenizer)
}

/// Same as [`super::load`] for a file.
pub(super) fn load(path: &Path, dtype: Option<Dtype>) -> Result<Checkpoint> {
    let SingleFile { config, tensors, .. } = open(path)?;
    config.validate().map_err(|error| Error::file(path, error.to_string(), error.hint()))?;
    let config = config.into();
    let mut parameters = Parameters::default();
    let model = Model::new(&config, &mut parameters)?;
    let declared: Vec<_> =
        parameters.declared().map(|(id, name, shape)| (id, name.to_owned(), shape.to_vec())).collect();
    for (_, name, shape) in &declared {
        let blocks = Blocks::of(name, &tensors);
        blocks.check(name, shape, &tensors)?;
    }
    tensors.check_used(declared.iter().map(|(_, name, _)| name.as_str()))?;
    for (id, name, shape) in declared {
        let values = Blocks::of(&name, &tensors).read(&tensors);
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let message = format!("{name} holds {} at index {index}, expected finite values", values[index]);
            return Err(Error::file(path, message, "the file is damaged"));
        }
        parameters.set(id, Tensor::new(&shape, values));
        if let Some(dtype) = dtype {
            parameters.prepare_one(id, dtype);
        }
    }
    let info = CheckpointInfo {
        layout: CheckpointLayout::Llama,
        dtypes: tensors.dtypes(),
        files: vec![path.to_owned()],
        bytes: tensors.file().bytes().len() as u64,
    };
    Ok(Checkpoint { model, parameters, info })
}
