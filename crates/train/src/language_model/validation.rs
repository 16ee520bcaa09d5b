//! Validation of a language model: cross-entropy per token, and per character and byte of the text, by which models with
//! different tokenisers compare.

use std::collections::BTreeMap;

use polyhead_engine::generate::{GenerateOptions, Overflow};
use polyhead_engine::{Generator, LoadOptions};
use polyhead_text::batch::BatchOptions;

use super::LanguageModelling;
use super::dataset::{PackedEpoch, PackedText, TextSize};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};
use crate::run_corpus::RunCorpus;

/// Lines that samples begin with.
const MAX_SAMPLES: usize = 64;
/// Tokens of a sample.
const SAMPLE_TOKENS: usize = 40;

/// The validation text of a run.
#[derive(Debug)]
pub(crate) struct TextValidation {
    batches: PackedEpoch,
    size: TextSize,
    max_len: usize,
    /// Lines with at least two words, split in the middle.
    samples: Vec<[String; 2]>,
}

impl TextValidation {
    pub(super) fn new(text: &PackedText, corpora: &[RunCorpus], config: &RunConfig) -> Result<Self> {
        if config.validation.metric != Metric::Loss {
            return Err(unsupported_metric(config.validation.metric.name(), "loss"));
        }
        let max_tokens = config.train.max_tokens;
        let batches = text.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let mut samples = Vec::new();
        for run_corpus in corpora {
            let mut lines = run_corpus.corpus.pairs()?;
            while let Some(line) = lines.next_pair()?
                && samples.len() < MAX_SAMPLES
            {
                let words: Vec<&str> = line.source.split_whitespace().collect();
                if words.len() > 1 {
                    let (begin, end) = words.split_at(words.len() / 2);
                    samples.push([begin.join(" "), end.join(" ")]);
                }
            }
        }
        Ok(Self { batches, size: text.size, max_len: config.model.max_len(), samples })
    }

    fn validation(&self, candidate: Candidate<'_, LanguageModelling>) -> Result<Validation> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let bits = loss * self.size.tokens as f64 / std::f64::consts::LN_2;
        let mut scores = BTreeMap::from([
            ("bits_per_byte".into(), bits / self.size.bytes as f64),
            ("bits_per_character".into(), bits / self.size.characters as f64),
        ]);
        if self.size.unknown > 0 {
            // The loss of an unknown token does not include its spelling.
            let share = 100.0 * self.size.unknown as f64 / self.size.tokens as f64;
            scores.insert("percent_unknown".into(), share);
        }
        Ok(Validation { loss, scores, merit: -loss, labels: Vec::new(), sample: None })
    }

    /// A line of the text, continued by the model.
    fn sample(&self, candidate: Candidate<'_, LanguageModelling>, at: usize) -> Result<ValidationSample> {
        let [source, reference] = self.samples[at].clone();
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let generator = Generator::load(candidate.folder, &options)?;
        let options = GenerateOptions {
            max_new_tokens: Some(SAMPLE_TOKENS),
            temperature: 0.0,
            // A line may be longer than the context.
            overflow: Overflow::Slide,
            ..GenerateOptions::default()
        };
        let output = generator.generate(&[&source], &options)?.remove(0).remove(0).text.trim().to_owned();
        Ok(ValidationSample { source, reference, output })
    }
}

impl ValidationSet<LanguageModelling> for TextValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, LanguageModelling>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        if !watch(0, self.size.lines) {
            return Ok(None);
        }
        let sample = stage.sample_of(self.samples.len()).map(|at| self.sample(candidate, at)).transpose()?;
        Ok(Some(Validation { sample, ..self.validation(candidate)? }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.size.lines, 0)
    }
}
