//! Validation of a translator: cross-entropy of the references, and scores of decoded translations.
//!
//! Perplexity is e to the power of the cross-entropy per token, without label smoothing. Translations are decoded from the
//! model folder by the engine that `polyhead translate` uses.

use std::collections::BTreeMap;

use polyhead_text::batch::BatchOptions;
use polyhead_text::metrics::{Bleu, BleuOptions, Chrf, SequenceErrorRate, Statistics, Tokenization};
use polyhead_translate::{Engine, LoadOptions, Mode, TranslateOptions};

use super::Translation;
use super::dataset::{Dataset, DatasetOptions, EpochData};
use crate::config::{Metric, ValidationConfig};
use crate::objective::{
    self, Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationWatch, unsupported_metric,
};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Length limits of a model and a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValidationLimits {
    /// Maximum number of tokens per side for the cross-entropy.
    pub(crate) max_length: usize,
    /// Maximum number of tokens in a batch.
    pub(crate) max_tokens: usize,
    /// Maximum number of tokens of a source that is translated.
    pub(crate) max_len: usize,
}

/// Sentences translated between two checks for a stop request, on a CPU and on a GPU.
const CHUNKS: [usize; 2] = [64, 256];

/// The validation pairs of a run.
#[derive(Debug)]
pub(crate) struct PairValidation {
    batches: EpochData,
    /// For each corpus the target language, and the end of its sources.
    parts: Vec<(Option<String>, usize)>,
    sources: Vec<String>,
    references: Vec<String>,
    config: ValidationConfig,
    tokenization: Tokenization,
    /// Maximum number of tokens of a translation: an untrained model rarely writes an end token.
    max_length: usize,
    skipped: usize,
}

impl PairValidation {
    pub(crate) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        config: &ValidationConfig,
        ValidationLimits { max_length, max_tokens, max_len }: ValidationLimits,
    ) -> Result<Self> {
        let options = DatasetOptions { max_length, ..DatasetOptions::default() };
        let dataset = Dataset::read(corpora, vocabulary, options)?;
        let (mut parts, mut sources, mut references) = (Vec::new(), Vec::new(), Vec::new());
        let most = if config.max_pairs == 0 { usize::MAX } else { config.max_pairs };
        for run_corpus @ RunCorpus { corpus, languages, .. } in corpora {
            let tag = run_corpus.tag().map(|tag| vocabulary.tag_id(&tag)).transpose()?;
            let mut pairs = corpus.pairs()?;
            let end = sources.len().saturating_add(most);
            while let Some(pair) = pairs.next_pair()?
                && sources.len() < end
            {
                let [source, _] = vocabulary.encode([pair.source, ""], tag)?;
                // With the end token. A line that the model cannot read must not end a run.
                if source.len() + 1 > max_len {
                    continue;
                }
                sources.push(pair.source.to_owned());
                references.push(pair.target.to_owned());
            }
            parts.push((languages.as_ref().map(|[_, to]| to.clone()), sources.len()));
        }
        let batches = dataset.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let skipped = dataset.skipped().too_long + dataset.skipped().empty;
        let max_length = 2 * dataset.longest_target() + 10;
        let tokenization = tokenization(&config.tokenize)?;
        if matches!(config.metric, Metric::Accuracy | Metric::F1 | Metric::Wer | Metric::Facts) {
            return Err(unsupported_metric(config.metric.name(), "bleu, chrf, errors or loss"));
        }
        let config = config.clone();
        Ok(Self { batches, parts, sources, references, config, tokenization, max_length, skipped })
    }
}

impl objective::ValidationSet<Translation> for PairValidation {
    fn counts(&self) -> (usize, usize) {
        (self.sources.len(), self.skipped)
    }

    fn validate(
        &self,
        candidate: Candidate<'_, Translation>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, candidate.objective.max_len())?;
        let is_loss = self.config.metric == Metric::Loss;
        if is_loss && matches!(stage, Stage::Checkpoint(_)) {
            return Ok(watch(0, self.sources.len()).then_some(Validation {
                loss,
                scores: BTreeMap::new(),
                merit: -loss,
                labels: Vec::new(),
                sample: None,
            }));
        }
        let beam_size = stage.beam_size(self.config.beam_size);
        let Some(translations) = self.translate(candidate, beam_size, watch)? else { return Ok(None) };
        let (scores, merit) = self.scores(&translations)?;
        let merit = if is_loss { -loss } else { merit };
        let sample = stage.sample_of(self.sources.len()).map(|at| ValidationSample {
            source: self.sources[at].clone(),
            reference: self.references[at].clone(),
            output: translations[at].clone(),
        });
        Ok(Some(Validation { loss, scores, merit, labels: Vec::new(), sample }))
    }
}

impl PairValidation {
    /// Translations by the model in the candidate's folder; `None` if `watch` returned false.
    fn translate(
        &self,
        Candidate { folder, device, .. }: Candidate<'_, Translation>,
        beam_size: usize,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Vec<String>>> {
        let engine = Engine::load(folder, &LoadOptions { device: device.clone(), ..LoadOptions::default() })?;
        let most = engine.generation().max_length;
        let options = TranslateOptions {
            mode: Mode::Raw,
            beam_size: Some(beam_size),
            max_length: Some(self.max_length.min(most)),
            ..TranslateOptions::default()
        };
        let texts: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        let mut found = Vec::with_capacity(texts.len());
        let chunk = CHUNKS[usize::from(device.policy().takes_turns)];
        for (to, end) in &self.parts {
            let options = TranslateOptions { to: to.clone(), ..options.clone() };
            // In chunks, so that a run can be stopped between them; they are the same in every run.
            for part in texts[found.len()..*end].chunks(chunk) {
                if !watch(found.len(), texts.len()) {
                    return Ok(None);
                }
                let translations = engine.translate(part, &options)?;
                found.extend(translations.iter().map(|translation| translation.best().text.clone()));
            }
        }
        Ok(Some(found))
    }

    fn scores(&self, translations: &[String]) -> Result<(BTreeMap<String, f64>, f64)> {
        let bleu =
            Bleu::new(BleuOptions { tokenization: self.tokenization.clone(), ..BleuOptions::default() });
        let (chrf, errors) =
            (Chrf::new(polyhead_text::metrics::ChrfOptions::default()), SequenceErrorRate::default());
        let references = [self.references.clone()];
        let mut scores = BTreeMap::new();
        let mut score = |metric: &dyn polyhead_text::metrics::Metric| -> Result<f64> {
            let score = Statistics::collect(metric, translations, &references)?.score(metric);
            scores.insert(metric.name(), score);
            Ok(score)
        };
        let merit = match self.config.metric {
            Metric::Errors => -score(&errors)?,
            Metric::Bleu => {
                score(&chrf)?;
                score(&bleu)?
            }
            Metric::Chrf
            | Metric::Loss
            | Metric::Accuracy
            | Metric::F1
            | Metric::Wer
            | Metric::Spearman
            | Metric::Facts => {
                score(&bleu)?;
                score(&chrf)?
            }
        };
        Ok((scores, merit))
    }
}

fn tokenization(name: &str) -> Result<Tokenization> {
    let all = Tokenization::BUILT_IN;
    all.iter().find(|tokenization| tokenization.name() == name).cloned().ok_or_else(|| {
        let names = all.each_ref().map(Tokenization::name).join(", ");
        Error::config(
            "validation.tokenize",
            format!("{name:?}, expected one of {names}"),
            "13a is the default",
        )
    })
}
