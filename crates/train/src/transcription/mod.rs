//! Speech recognition: cross-entropy of the text of a sound.

mod augment;
mod dataset;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, Model, SpeechRecognizer};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{Limits, SpeechBatch, SpeechRows};
use self::validation::SpeechValidation;
use crate::config::{RunConfig, SoundConfig};
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, refuse_pair_settings};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a speech recogniser.
#[derive(Debug)]
pub(crate) struct Transcription {
    model: SpeechRecognizer,
}

impl Objective for Transcription {
    type Batch = SpeechBatch;
    type Data = SpeechRows;
    type Valid = SpeechValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_speech()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "this model writes what is said in a sound")?;
        if config.train.r_drop > 0.0 {
            let message = format!("{} for task = \"transcribe\", expected 0", config.train.r_drop);
            return Err(Error::config("train.r_drop", message, "leave it out"));
        }
        let [pad_id, end_id] = vocabulary.special_ids();
        let facts = DataSpec { vocab_sizes: vocabulary.sizes(), pad_id, end_id, ..DataSpec::default() };
        let model = config.model.with_data(&facts)?;
        // Without weights: it lays out its input.
        let layout = Model::new(&model, &mut Parameters::default())?.into_speech()?;
        let limits = Limits {
            frames: layout.config().max_frames.min(config.train.max_tokens),
            tokens: model.max_len().min(config.train.max_tokens).min(config.data.max_length),
        };
        let data = SpeechRows::read(&corpora.train, (vocabulary, &layout), limits, config)?;
        let valid = if corpora.valid.is_empty() {
            None
        } else {
            let own = SpeechRows::read(&corpora.valid, (vocabulary, &layout), limits, &plain(config))?;
            Some(SpeechValidation::new(&own, config)?)
        };
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &SpeechBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let ignored_id = Some(self.model.special_ids().pad_id);
        let options = CrossEntropyOptions { label_smoothing: options.label_smoothing, ignored_id };
        let loss = self.model.loss(pass, &batch.frames, &batch.target, (&batch.expected, options))?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

/// The same config without augmentation.
fn plain(config: &RunConfig) -> RunConfig {
    RunConfig { sound: SoundConfig::default(), ..config.clone() }
}
