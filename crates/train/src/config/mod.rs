//! Recipes: TOML files that describe a training run completely.
//!
//! ```text
//! FILE.toml, --set a.b=c → table → RunConfig (checked, every default filled in) → written into the run folder
//! ```
//!
//! Paths in a file are relative to its folder. An unknown key is an error that names the nearest known one.

mod classes;
mod data;
pub mod dtype;
mod images;
mod model;
mod objectives;
mod read;
mod sections;

pub use classes::{ClassWeighting, ClassesConfig, WeightRule};
pub use data::{
    AugmentConfig, CorpusConfig, DataConfig, EmbeddingsConfig, TextRows, TokenizerConfig, VocabularySharing,
};
pub use images::ImagesConfig;
pub use objectives::{ContrastiveConfig, MaskingConfig, SoundConfig};
pub use read::{Override, dump, load, parse};
pub use sections::{
    CheckpointConfig, Divergence, FinalModel, Metric, OptimizerConfig, TrainConfig, ValidationConfig,
};

use std::path::PathBuf;

use polyhead_models::ModelConfig;
use serde::{Deserialize, Serialize};

use crate::schedule::ScheduleConfig;
use crate::task::Task;

/// A resolved training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// The run folder, created by the run; default: `run`.
    pub out: PathBuf,
    /// Random seed of initial weights, batches and dropout; default: 1.
    pub seed: u64,
    /// Task: `translate`, `classify`, `tag`, `language-model`, `masked-language-model`, `contrastive`, `pointer`,
    /// `classify-images`, `transcribe` or `caption`; default: that of the model, and `translate` without one.
    pub task: Task,
    /// A model folder that training starts from, with its config, weights and tokeniser: a language model, or an encoder of text
    /// or of images, which gets the head of the task; default: none, random weights.
    pub init: Option<PathBuf>,
    /// Training and validation text.
    pub data: DataConfig,
    /// Data augmentation.
    pub augment: AugmentConfig,
    /// Tokeniser.
    pub tokenizer: TokenizerConfig,
    /// The model: its family (`model_type`), a `preset`, and keys that override it.
    #[serde(with = "model")]
    pub model: ModelConfig,
    /// Weights of labels.
    pub classes: ClassesConfig,
    /// Initialisation of embeddings.
    pub embeddings: EmbeddingsConfig,
    /// Hidden words of a masked language model.
    pub masking: MaskingConfig,
    /// Loss of contrastive training.
    pub contrastive: ContrastiveConfig,
    /// Images of an image classifier or captioner.
    pub images: ImagesConfig,
    /// Changes of sounds.
    pub sound: SoundConfig,
    /// Optimiser.
    pub optimizer: OptimizerConfig,
    /// Learning rate schedule.
    pub schedule: ScheduleConfig,
    /// Batches, training loss, and limits of the run.
    pub train: TrainConfig,
    /// Frequency and metric of validation.
    pub validation: ValidationConfig,
    /// Checkpoints, and the finished model.
    pub checkpoint: CheckpointConfig,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            out: "run".into(),
            seed: 1,
            task: Task::default(),
            init: None,
            data: DataConfig::default(),
            augment: AugmentConfig::default(),
            tokenizer: TokenizerConfig::default(),
            model: model::default(),
            classes: ClassesConfig::default(),
            embeddings: EmbeddingsConfig::default(),
            masking: MaskingConfig::default(),
            contrastive: ContrastiveConfig::default(),
            images: ImagesConfig::default(),
            sound: SoundConfig::default(),
            optimizer: OptimizerConfig::default(),
            schedule: ScheduleConfig::default(),
            train: TrainConfig::default(),
            validation: ValidationConfig::default(),
            checkpoint: CheckpointConfig::default(),
        }
    }
}

impl RunConfig {
    /// The same config with absolute paths.
    #[must_use]
    pub fn with_absolute_paths(&self) -> Self {
        let mut config = self.clone();
        let corpora = config.data.train.iter_mut().chain(&mut config.data.valid);
        let files = corpora.flat_map(CorpusConfig::paths_mut);
        let others = [
            &mut config.tokenizer.file,
            &mut config.embeddings.init,
            &mut config.init,
            &mut config.validation.judged,
        ];
        for path in files.chain(others.into_iter().flatten()).chain([&mut config.out]) {
            // Only an empty path has no absolute form.
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        }
        config
    }
}
