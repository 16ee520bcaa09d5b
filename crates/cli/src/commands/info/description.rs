//! The description of a model, printed as text or JSON.

use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_engine::encoder::modules::SentenceModules;
use polyhead_models::checkpoint::safetensors::{Weights, header_name};
use polyhead_models::checkpoint::{
    CheckpointInfo, CheckpointLayout, check_weights, marian_compatible, read_config,
    read_config_without_weights,
};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::Parameters;
use serde::Serialize;
use serde_json::{Map, Value};

use super::tokenizers::{self, Vocabulary};
use crate::model_folder::{check_folder, generation, object};

/// Description of a model folder or a preset.
#[derive(Serialize)]
pub(super) struct ModelDescription {
    /// The model folder; none for a preset.
    pub(super) folder: Option<PathBuf>,
    /// The checkpoint layout; none for a preset.
    pub(super) layout: Option<CheckpointLayout>,
    pub(super) architecture: ModelConfig,
    pub(super) parameters: ParameterCounts,
    pub(super) weights: Option<WeightFiles>,
    /// Memory of the weights by dtype.
    pub(super) memory_bytes: MemoryByDtype,
    /// Memory of the K/V cache per token, in f32.
    pub(super) cache_bytes: CacheBytes,
    pub(super) tokenizers: Vec<Vocabulary>,
    /// What makes a vector of a text, in a folder of sentence-transformers.
    pub(super) sentence_vectors: Option<SentenceVectors>,
    /// Directions that a multilingual model was trained on, such as `eng-tur`.
    pub(super) directions: Vec<String>,
    /// Generation settings.
    pub(super) generation: Option<Map<String, Value>>,
    pub(super) marian: MarianSupport,
    pub(super) notes: Vec<String>,
}

/// How the states of tokens become the vector of a text.
#[derive(Serialize)]
pub(super) struct SentenceVectors {
    /// Names of the poolings, whose vectors are put side by side.
    pub(super) pooling: Vec<&'static str>,
    pub(super) normalised: bool,
    /// Longest text in tokens, if it is not that of the model.
    pub(super) max_length: Option<usize>,
    /// Text before every text.
    pub(super) prompt: String,
}

impl SentenceVectors {
    fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let modules = SentenceModules::of_folder(folder)?;
        Ok(modules.map(|modules| Self {
            pooling: modules.pooling.iter().map(|pooling| pooling.name()).collect(),
            normalised: modules.normalises(),
            max_length: modules.max_len,
            prompt: modules.prompt,
        }))
    }
}

/// Parameter counts by group; tied parameters count once.
#[derive(Serialize, Default)]
pub(super) struct ParameterCounts {
    pub(super) total: u64,
    /// Token embeddings and learned positions; includes a tied output projection.
    pub(super) embeddings: u64,
    pub(super) encoder: u64,
    pub(super) decoder: u64,
    /// Untied output projection and its bias, or the classification head.
    pub(super) output: u64,
}

#[derive(Serialize)]
pub(super) struct WeightFiles {
    pub(super) files: Vec<PathBuf>,
    pub(super) bytes: u64,
    pub(super) dtypes: Vec<&'static str>,
}

/// Memory of the weights, in bytes.
#[derive(Serialize, Default)]
pub(super) struct MemoryByDtype {
    pub(super) f32: u64,
    pub(super) bf16: u64,
    /// One byte per weight of a matrix and eight per row; vectors as f32.
    pub(super) int8: u64,
}

#[derive(Serialize)]
pub(super) struct CacheBytes {
    /// Keys and values of self-attention in the decoder.
    pub(super) per_target_token: u64,
    /// Keys and values of cross-attention.
    pub(super) per_source_token: u64,
}

/// Support of Hugging Face's `MarianMTModel` for this model.
#[derive(Serialize)]
pub(super) struct MarianSupport {
    pub(super) compatible: bool,
    /// True if it can load the folder as it is.
    pub(super) loads_folder: bool,
    pub(super) reasons: Vec<String>,
}

impl ModelDescription {
    /// Describes the model of a folder, or its config where there are no weights.
    pub(super) fn of_folder(folder: &Path) -> Result<Self> {
        check_folder(folder)?;
        // Without a config.json, sizes are those of the weights.
        let has_weights = Weights::exist_in(folder) || !folder.join("config.json").exists();
        let (config, layout) =
            if has_weights { read_config(folder)? } else { read_config_without_weights(folder)? };
        let mut parameters = Parameters::default();
        Model::new(&config, &mut parameters)?;
        let mut description = Self::of_config(config)?;
        if has_weights {
            let loaded = check_weights(folder, &description.architecture, layout, &parameters)?;
            description.weights = Some(WeightFiles::from(loaded));
        } else {
            description.notes.push("no weights: this is what the config says".into());
        }
        description.tokenizers = tokenizers::find(folder, &description.architecture)?;
        if description.tokenizers.is_empty() {
            description.notes.push("no tokeniser found".into());
        }
        description.notes.extend(description.tokenizers.iter().filter_map(Vocabulary::note));
        description.generation = generation(folder)?;
        description.sentence_vectors = SentenceVectors::of_folder(folder)?;
        description.directions = directions(folder)?;
        let marian = &mut description.marian;
        marian.loads_folder = marian.compatible && layout == CheckpointLayout::Marian && has_weights;
        Ok(Self { folder: Some(folder.to_owned()), layout: Some(layout), ..description })
    }

    /// Describes a model without files.
    pub(super) fn of_config(config: ModelConfig) -> Result<Self> {
        let mut parameters = Parameters::default();
        Model::new(&config, &mut parameters)?;
        let (mut counts, mut memory) = (ParameterCounts::default(), MemoryByDtype::default());
        for (_, name, shape) in parameters.declared() {
            counts.add(name, shape.iter().product::<usize>() as u64);
            memory.add(shape);
        }
        let reasons = marian_compatible(&config).err().unwrap_or_default();
        Ok(Self {
            folder: None,
            layout: None,
            parameters: counts,
            weights: None,
            memory_bytes: memory,
            cache_bytes: CacheBytes::of(&config),
            tokenizers: Vec::new(),
            generation: None,
            sentence_vectors: None,
            directions: Vec::new(),
            marian: MarianSupport { compatible: reasons.is_empty(), loads_folder: false, reasons },
            notes: Vec::new(),
            architecture: config,
        })
    }
}

impl ParameterCounts {
    fn add(&mut self, name: &str, count: u64) {
        self.total += count;
        let parts: Vec<&str> = name.split('.').collect();
        *match parts[..] {
            ["encoder" | "decoder", "positions", ..] => &mut self.embeddings,
            ["encoder", ..] => &mut self.encoder,
            ["decoder", ..] => &mut self.decoder,
            [table, ..] if table.contains("embedding") => &mut self.embeddings,
            _ => &mut self.output,
        } += count;
    }
}

impl MemoryByDtype {
    fn add(&mut self, shape: &[usize]) {
        let count = shape.iter().product::<usize>() as u64;
        self.f32 += 4 * count;
        self.bf16 += 2 * count;
        self.int8 += if let &[rows, _] = shape { count + 8 * rows as u64 } else { 4 * count };
    }
}

impl CacheBytes {
    fn of(config: &ModelConfig) -> Self {
        let [target, source] = config.cache_elements().map(|numbers| (numbers * size_of::<f32>()) as u64);
        Self { per_target_token: target, per_source_token: source }
    }
}

impl From<CheckpointInfo> for WeightFiles {
    fn from(loaded: CheckpointInfo) -> Self {
        let dtypes = loaded.dtypes.iter().map(|dtype| header_name(*dtype)).collect();
        Self { files: loaded.files, bytes: loaded.bytes, dtypes }
    }
}

/// The translation directions in a folder's `tokenizer_config.json`.
fn directions(folder: &Path) -> Result<Vec<String>> {
    let settings = object(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let named = settings.get("directions").and_then(Value::as_array).into_iter().flatten();
    Ok(named.filter_map(Value::as_str).map(str::to_owned).collect())
}
