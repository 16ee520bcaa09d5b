//! A recipe: everything that decides what a training run does, as a TOML file.
//!
//! ```text
//! FILE.toml, --set a.b=c → table → RunConfig (checked, every default filled in) → written into the run folder
//! ```
//!
//! Paths in a file are relative to its folder. An unknown key is an error that names the nearest known one.

mod data;
mod model;
mod read;
mod sections;

pub use data::{AugmentConfig, CorpusConfig, DataConfig, EmbeddingsConfig, Sides, TokenizerConfig};
pub use read::{Override, dump, load, parse};
pub use sections::{
    CheckpointConfig, Divergence, Dtype, Final, Metric, OptimizerConfig, Precision, TrainConfig,
    ValidationConfig,
};

use std::path::PathBuf;

use polyhead_models::ModelConfig;
use serde::{Deserialize, Serialize};

use crate::schedule::ScheduleConfig;

/// A training run, as meant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// The run folder, made by the run; `run`.
    pub out: PathBuf,
    /// Another seed, other first weights, batches and dropout; 1.
    pub seed: u64,
    /// What is learned from, and what it is checked on.
    pub data: DataConfig,
    /// What is changed about it in passing.
    pub augment: AugmentConfig,
    /// How text becomes ids.
    pub tokenizer: TokenizerConfig,
    /// The model: its family (`model_type`), a `preset`, and whatever differs from it.
    #[serde(with = "model")]
    pub model: ModelConfig,
    /// Where embeddings start from.
    pub embeddings: EmbeddingsConfig,
    /// How gradients become steps.
    pub optimizer: OptimizerConfig,
    /// The learning rate over the steps.
    pub schedule: ScheduleConfig,
    /// Batches, loss and when to end.
    pub train: TrainConfig,
    /// How often and by what the model is judged.
    pub validation: ValidationConfig,
    /// What is written, kept and made of it at the end.
    pub checkpoint: CheckpointConfig,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            out: "run".into(),
            seed: 1,
            data: DataConfig::default(),
            augment: AugmentConfig::default(),
            tokenizer: TokenizerConfig::default(),
            model: model::default(),
            embeddings: EmbeddingsConfig::default(),
            optimizer: OptimizerConfig::default(),
            schedule: ScheduleConfig::default(),
            train: TrainConfig::default(),
            validation: ValidationConfig::default(),
            checkpoint: CheckpointConfig::default(),
        }
    }
}

impl RunConfig {
    /// The same with paths that hold from any folder.
    #[must_use]
    pub fn with_absolute_paths(&self) -> Self {
        let mut config = self.clone();
        let corpora = config.data.train.iter_mut().chain(&mut config.data.valid);
        let files = corpora
            .flat_map(|corpus| [&mut corpus.source, &mut corpus.target, &mut corpus.tsv, &mut corpus.jsonl]);
        let files = files.chain([&mut config.tokenizer.file, &mut config.embeddings.init]);
        for path in files.flatten().chain([&mut config.out]) {
            // Only an empty path has no absolute form.
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        }
        config
    }
}
