//! Speech recognition: sounds in, text out.
//!
//! ```text
//! WAV → samples → resample → log-mel frames → windows → encoder → search → tokens → segments, words with times
//! ```
//!
//! [`wav`] reads files, [`LogMel`] computes frames, [`SpeechEngine`] is a loaded model folder. A sound that is longer than the
//! model's window is read window by window: a model with timestamps says where the next one begins, as Whisper does; for
//! others, windows end where the sound is quiet.

mod features;
mod fft;
mod recognise;
mod resample;
mod segments;
mod settings;
mod steps;
mod summary;
mod times;
mod transcript;
pub mod wav;
mod windows;
mod words;

use std::path::Path;

use polyhead_models::SpeechRecognizer;
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::Tokenizer;

use self::settings::SpeechSettings;
use self::windows::TOGETHER;
use crate::generate::PromptTokenizer;
use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

pub use self::features::LogMel;
pub use self::recognise::Recognised;
pub use self::resample::resample;
pub use self::steps::Transcription;
pub use self::summary::SpeechSummary;
pub use self::transcript::{Segment, Transcript, Word};
pub use self::wav::{Sound, SoundSize};

/// Seconds of the longest sound that is read by default.
pub const MOST_SECONDS: f64 = 3_600.0;

/// The task of a model with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeechTask {
    /// Text in the language that is spoken.
    #[default]
    Transcribe,
    /// Text in English.
    Translate,
}

/// Options of a transcription.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscribeOptions {
    /// Code of the language, such as `en`; default: detected, if the model has several.
    pub language: Option<String>,
    /// The task; default: transcribe.
    pub task: SpeechTask,
    /// False if the model should write no timestamps, although it can; default: true.
    pub timestamps: bool,
    /// True if words get times; default: false.
    pub word_times: bool,
    /// Beam size; default: that of the folder, else 1.
    pub beam_size: Option<usize>,
    /// Temperature of sampling; default: 0, no sampling.
    pub temperature: f32,
    /// Random seed of sampling; default: 0.
    pub seed: u64,
    /// Most tokens of a window; default: as many as the model has positions.
    pub max_tokens: Option<usize>,
    /// Fewest tokens of a window; default: 0.
    pub min_tokens: usize,
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        Self {
            language: None,
            task: SpeechTask::default(),
            timestamps: true,
            word_times: false,
            beam_size: None,
            temperature: 0.0,
            seed: 0,
            max_tokens: None,
            min_tokens: 0,
        }
    }
}

/// A speech recogniser with its weights and tokeniser. It may be used by several threads at once.
#[derive(Debug)]
pub struct SpeechEngine {
    model: SpeechRecognizer,
    parameters: Parameters,
    tokenizer: Tokenizer,
    settings: SpeechSettings,
    features: LogMel,
}

impl SpeechEngine {
    /// Loads a speech recogniser from a folder in the format of Polyhead or of Hugging Face's Whisper.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is of another kind.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let checkpoint = load(folder, options)?;
        let model = checkpoint.model.into_speech().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let settings = SpeechSettings::load(folder, &model)?;
        let tokenizer = PromptTokenizer::load(folder)?;
        tokenizer.check(folder, model.config().vocab_size)?;
        let features = LogMel::of(&model);
        Ok(Self {
            parameters: checkpoint.parameters,
            tokenizer: tokenizer.into_tokenizer(),
            settings,
            features,
            model,
        })
    }

    /// The model.
    pub fn model(&self) -> &SpeechRecognizer {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokeniser of texts.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The log-mel frames of the model.
    pub fn features(&self) -> &LogMel {
        &self.features
    }

    /// The samples of a sound at the rate of the model, and what was done to it.
    pub fn samples(&self, sound: &Sound) -> (Vec<f32>, Vec<String>) {
        let rate = self.model.config().sample_rate as u32;
        (resample(&sound.samples, sound.rate, rate), self.notes(sound))
    }

    fn notes(&self, sound: &Sound) -> Vec<String> {
        let rate = self.model.config().sample_rate as u32;
        let mut notes = sound.notes.clone();
        if sound.rate != rate {
            notes.push(format!("{} samples per second, resampled to {rate}", sound.rate));
        }
        notes
    }

    /// What is said in a sound.
    ///
    /// # Errors
    /// If an option does not fit the model, or the device fails.
    pub fn transcribe(&self, sound: &Sound, options: &TranscribeOptions) -> Result<Transcript> {
        let mut transcription = self.begin(sound.clone(), options)?;
        while self.advance(&mut transcription, TOGETHER, None)? {}
        Ok(self.finish(transcription))
    }

    /// The text of tokens, without special ones.
    ///
    /// # Errors
    /// If a token is unknown to the tokeniser.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        let words: Vec<u32> = ids.iter().copied().filter(|id| self.is_text(*id)).collect();
        Ok(self.tokenizer.decode(&words)?.trim().to_owned())
    }

    /// True if a token is part of the text. The special tokens of a model with timestamps come last.
    fn is_text(&self, id: u32) -> bool {
        let special = self.model.special_ids();
        match self.settings.no_timestamps {
            Some(_) => id < special.end_id.min(special.start_id),
            None => ![special.pad_id, special.end_id, special.start_id].contains(&id),
        }
    }
}
