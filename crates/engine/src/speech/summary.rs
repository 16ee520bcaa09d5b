//! What is known of a speech recogniser before its weights are loaded.

use std::path::{Path, PathBuf};

use polyhead_models::Model;
use polyhead_models::checkpoint::read_config;
use polyhead_tensor::Parameters;

use super::settings::SpeechSettings;
use crate::load::check_folder;
use crate::{Error, Result};

/// A speech recogniser without its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechSummary {
    /// The model folder.
    pub folder: PathBuf,
    /// Number of parameters.
    pub n_parameters: usize,
    /// Codes of the languages that it knows; empty for a model of one language.
    pub languages: Vec<String>,
    /// True if it can write English, whatever is spoken.
    pub translates: bool,
    /// Samples per second.
    pub sample_rate: usize,
    /// Most frames of a window; 100 are a second.
    pub max_frames: usize,
    /// Numbers in a frame.
    pub n_mels: usize,
    /// Numbers in the state of a position.
    pub d_model: usize,
    /// Attention heads of a layer of the encoder.
    pub n_heads: usize,
    /// True if every window is padded to its maximum.
    pub pads: bool,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Most tokens of a window.
    pub max_tokens: usize,
}

impl SpeechSummary {
    /// Reads the config and the settings of a folder.
    ///
    /// # Errors
    /// If it holds no speech recogniser.
    pub fn of_folder(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let (config, _) = read_config(folder)?;
        let mut parameters = Parameters::default();
        let model = Model::new(&config, &mut parameters)?.into_speech().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let settings = SpeechSettings::load(folder, &model)?;
        let config = model.config();
        Ok(Self {
            folder: folder.to_owned(),
            n_parameters: parameters.count(),
            languages: settings.languages.keys().cloned().collect(),
            translates: settings.tasks.contains_key("translate"),
            sample_rate: config.sample_rate,
            max_frames: config.max_frames,
            n_mels: config.n_mels,
            d_model: config.d_model,
            n_heads: config.encoder.n_heads,
            pads: config.pad_sound,
            vocab_size: config.vocab_size,
            max_tokens: settings.text.max_length,
        })
    }

    /// Positions of the encoder for a sound of so many seconds, all windows together.
    pub fn positions(&self, seconds: f64) -> usize {
        let frames = (seconds * 100.0).ceil().max(1.0) as usize;
        if self.pads { frames.div_ceil(self.max_frames) * self.max_frames / 2 } else { frames.div_ceil(2) }
    }

    /// Most positions of a window.
    pub fn window(&self) -> usize {
        self.max_frames.div_ceil(2)
    }
}
