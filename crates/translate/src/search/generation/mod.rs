//! The generation settings of a model folder: `generation_config.json`, or `config.json` in older folders.
//!
//! Keys are those of Hugging Face's `generate` and act as there. A known key of a wrong type is an error, and so is one
//! that would change what `generate` writes and is not supported; others are ignored, for they are many. There
//! `max_length` counts the start token; here it does not.

mod settings;

use std::path::Path;

use polyhead_engine::settings::Settings;
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::{SequenceToSequence, SpecialIds};

use self::settings::over;
use crate::Result;

/// Default maximum length of a translation, in tokens.
const MAX_LENGTH: usize = 512;
/// Default beam size of a folder without generation settings.
const BEAM_SIZE: usize = 4;

/// The generation settings of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Beam size (`num_beams`); default: 1 in a folder with settings of its own, otherwise 4.
    pub beam_size: usize,
    /// Maximum number of tokens of a translation, the end token included (`max_new_tokens`, or `max_length` − 1); default:
    /// 512, or the model's positions.
    pub max_length: usize,
    /// True if `max_length` does not count a prefix (`max_new_tokens`); default: false.
    pub is_max_new: bool,
    /// Minimum number of tokens before the end token, a prefix included (`min_length` − 1); default: 0.
    pub min_length: usize,
    /// Minimum number of tokens between a prefix and the end token (`min_new_tokens`); default: 0.
    pub min_new: usize,
    /// Exponent of the length that sums of log-probabilities are divided by (`length_penalty`); default: 1.
    pub length_penalty: f64,
    /// Stopping rule of the beam search (`early_stopping`); default: the heuristic.
    pub early_stopping: EarlyStopping,
    /// Forbidden and forced tokens, biases and penalties (`bad_words_ids`, `suppress_tokens`, `begin_suppress_tokens`,
    /// `sequence_bias`, `no_repeat_ngram_size`, `repetition_penalty`, `forced_bos_token_id`, `forced_eos_token_id`,
    /// `exponential_decay_length_penalty`, `renormalize_logits`, further ids of `eos_token_id`); default: padding must not
    /// occur.
    pub rules: Rules,
    /// Mean log-probability of a token below which a translation is noted as unsure (`unsure_below`, a key of this
    /// program); default: none, nothing is noted.
    pub unsure_below: Option<f64>,
    /// Id that decoding starts from (`decoder_start_token_id`); default: the model's.
    pub start_id: u32,
    /// Id that ends a translation (`eos_token_id`; of several the model's, or the first); default: the model's.
    pub end_id: u32,
    /// Id of padding (`pad_token_id`); default: the model's.
    pub pad_id: u32,
}

impl Generation {
    /// The settings of a model whose folder has none.
    pub fn of(model: &SequenceToSequence) -> Self {
        Self::with(model.special_ids(), model.max_len())
    }

    fn with(SpecialIds { pad_id, end_id, start_id }: SpecialIds, max_len: usize) -> Self {
        let suppressed = if pad_id == end_id { vec![] } else { vec![vec![pad_id]] };
        Self {
            beam_size: BEAM_SIZE,
            max_length: MAX_LENGTH.min(max_len),
            is_max_new: false,
            min_length: 0,
            min_new: 0,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            rules: Rules { suppressed, ..Rules::default() },
            unsure_below: None,
            start_id,
            end_id,
            pad_id,
        }
    }

    /// Reads the settings of a folder.
    ///
    /// # Errors
    /// If a file is not a JSON object, or a key has a value of another type or one that is not supported.
    pub fn load(folder: &Path, model: &SequenceToSequence) -> Result<Self> {
        let own = folder.join("generation_config.json");
        let path = if own.exists() { own } else { folder.join("config.json") };
        if !path.exists() {
            return Ok(Self::of(model));
        }
        over(&Settings::load(path)?, Self::of(model), model.max_len())
    }

    /// The ids that end a translation.
    pub fn end_ids(&self) -> impl Iterator<Item = u32> {
        [self.end_id].into_iter().chain(self.rules.other_end_ids.iter().copied())
    }

    /// True if the token is written: neither start, end nor padding.
    pub fn is_written(&self, id: u32) -> bool {
        ![self.start_id, self.pad_id].contains(&id) && self.end_ids().all(|end| end != id)
    }
}
