//! Validation of a speech recogniser: word error rate of its texts, and cross-entropy of the references.

use std::collections::BTreeMap;

use polyhead_engine::speech::TranscribeOptions;
use polyhead_engine::{LoadOptions, SpeechEngine};
use polyhead_text::batch::BatchOptions;
use polyhead_text::metrics::{EditUnit, Metric as _, SequenceErrorRate, Statistics, TokenErrorRate};

use super::Transcription;
use super::dataset::{SpeechEpoch, SpeechRows};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};

/// Sounds transcribed between two checks for a stop request.
const CHUNK: usize = 64;

/// The validation sounds of a run.
#[derive(Debug)]
pub(crate) struct SpeechValidation {
    batches: SpeechEpoch,
    sounds: Vec<Vec<f32>>,
    references: Vec<String>,
    metric: Metric,
    beam_size: usize,
    max_len: usize,
    /// Most tokens of a text: an untrained model rarely writes an end token.
    max_tokens: usize,
    skipped: usize,
}

impl SpeechValidation {
    pub(super) fn new(data: &SpeechRows, config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Wer | Metric::Errors | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "wer, errors or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let max_tokens = config.train.max_tokens;
        let (sounds, references) = data.sounds(most).into_iter().unzip();
        let skipped = data.skipped();
        Ok(Self {
            batches: data.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?,
            sounds,
            references,
            metric,
            beam_size: config.validation.beam_size,
            max_len: config.model.max_len(),
            max_tokens: 2 * data.tokens()[1].div_ceil(data.len()) + 30,
            skipped: skipped.too_long + skipped.empty,
        })
    }
}

impl ValidationSet<Transcription> for SpeechValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Transcription>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let engine = SpeechEngine::load(candidate.folder, &options)?;
        let options = TranscribeOptions {
            beam_size: Some(stage.beam_size(self.beam_size)),
            max_tokens: Some(self.max_tokens),
            ..TranscribeOptions::default()
        };
        let mut found: Vec<String> = Vec::with_capacity(self.sounds.len());
        for part in self.sounds.chunks(CHUNK) {
            if !watch(found.len(), self.sounds.len()) {
                return Ok(None);
            }
            let sounds: Vec<&[f32]> = part.iter().map(Vec::as_slice).collect();
            found.extend(engine.recognise_all(&sounds, &options)?);
        }
        let references = [self.references.clone()];
        let words = TokenErrorRate::default();
        let characters = TokenErrorRate { unit: EditUnit::Characters, ..words };
        let texts = SequenceErrorRate::default();
        let wer = Statistics::collect(&words, &found, &references)?.score(&words);
        let cer = Statistics::collect(&characters, &found, &references)?.score(&characters);
        let errors = Statistics::collect(&texts, &found, &references)?.score(&texts);
        let scores = BTreeMap::from([(words.name(), wer), (characters.name(), cer), (texts.name(), errors)]);
        let sample = stage.sample_of(self.sounds.len()).map(|at| ValidationSample {
            source: format!("sound {}", at + 1),
            reference: self.references[at].clone(),
            output: found[at].clone(),
        });
        let merit = match self.metric {
            Metric::Wer => -wer,
            Metric::Errors => -errors,
            _ => -loss,
        };
        Ok(Some(Validation { loss, scores, merit, labels: Vec::new(), sample }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.sounds.len(), self.skipped)
    }
}
