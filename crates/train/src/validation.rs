//! How good a model is: cross-entropy of references, and real translations compared with them.
//!
//! Perplexity is e to the cross-entropy of a token, without label smoothing. Translations come from the folder that would
//! be deployed, by the engine that `polyhead translate` uses.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::transformer::Translator;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Device, Parameters, Tape};
use polyhead_text::batch::{BatchOptions, Rounding};
use polyhead_text::metrics::{Bleu, BleuOptions, Chrf, SequenceErrorRate, Statistics, Tokenization};
use polyhead_translate::{Engine, LoadOptions, Mode, TranslateOptions};

use crate::config::{Metric, ValidationConfig};
use crate::dataset::{Batch, Dataset, DatasetOptions, EpochData};
use crate::parallel::Parallel;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// What one validation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Mean cross-entropy of a target token.
    pub loss: f64,
    /// Scores of the translations, by the names that papers print; none where only the loss counts.
    pub scores: BTreeMap<String, f64>,
    /// The score that chooses; higher is better.
    pub merit: f64,
    /// A pair and its translation.
    pub sample: Option<Sample>,
}

/// A sentence of the validation set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The source.
    pub source: String,
    /// The reference.
    pub reference: String,
    /// What the model made of it.
    pub translation: String,
}

/// A model to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) model: &'a Translator,
    /// Its numbers, in the memory of the processor.
    pub(crate) parameters: &'a Parameters,
    /// The same model as it would be used.
    pub(crate) folder: &'a Path,
    /// Where it is judged.
    pub(crate) device: &'a Device,
}

/// Sentences translated between two looks at whether the run is to stop.
const PART: usize = 256;

/// The pairs that a run validates on.
#[derive(Debug)]
pub(crate) struct ValidationSet {
    batches: EpochData,
    /// The languages written, and where the sources of each end.
    parts: Vec<(Option<String>, usize)>,
    sources: Vec<String>,
    references: Vec<String>,
    config: ValidationConfig,
    tokenization: Tokenization,
    /// Most tokens of a translation: a model that has learned nothing yet would write on for ever.
    max_length: usize,
    skipped: usize,
}

impl ValidationSet {
    pub(crate) fn read(
        corpora: &[Parallel],
        vocabulary: &Vocabulary,
        config: &ValidationConfig,
        (max_length, max_tokens): (usize, usize),
    ) -> Result<Self> {
        let options = DatasetOptions { max_length, ..DatasetOptions::default() };
        let dataset = Dataset::read(corpora, vocabulary, options)?;
        let (mut parts, mut sources, mut references) = (Vec::new(), Vec::new(), Vec::new());
        let most = if config.max_pairs == 0 { usize::MAX } else { config.max_pairs };
        for Parallel { corpus, languages, .. } in corpora {
            let mut pairs = corpus.pairs()?;
            let end = sources.len().saturating_add(most);
            while let Some(pair) = pairs.next_pair()?
                && sources.len() < end
            {
                sources.push(pair.source.to_owned());
                references.push(pair.target.to_owned());
            }
            parts.push((languages.as_ref().map(|[_, to]| to.clone()), sources.len()));
        }
        let batches = dataset.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let skipped = dataset.skipped().too_long + dataset.skipped().empty;
        let max_length = 2 * dataset.longest_target() + 10;
        let tokenization = tokenization(&config.tokenize)?;
        let config = config.clone();
        Ok(Self { batches, parts, sources, references, config, tokenization, max_length, skipped })
    }

    /// Pairs whose cross-entropy does not count, for they are empty or too long.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// Pairs that are translated.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Judges a model; `turn` chooses the sample. None where `is_stopping` became true.
    pub(crate) fn judge(
        &self,
        candidate: Candidate<'_>,
        turn: u64,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<Option<Validation>> {
        let loss = self.cross_entropy(candidate)?;
        if is_stopping() {
            return Ok(None);
        }
        if self.config.metric == Metric::Loss {
            return Ok(Some(Validation { loss, scores: BTreeMap::new(), merit: -loss, sample: None }));
        }
        let Some(translations) = self.translate(candidate, self.config.beam_size, is_stopping)? else {
            return Ok(None);
        };
        let (scores, merit) = self.scores(&translations)?;
        let at = (turn as usize * 7) % self.len();
        let sample = Sample {
            source: self.sources[at].clone(),
            reference: self.references[at].clone(),
            translation: translations[at].clone(),
        };
        Ok(Some(Validation { loss, scores, merit, sample: Some(sample) }))
    }

    /// Judges a finished model as it will be used.
    pub(crate) fn judge_finished(&self, candidate: Candidate<'_>, beam_size: usize) -> Result<Validation> {
        let loss = self.cross_entropy(candidate)?;
        let translations = self.translate(candidate, beam_size, &|| false)?.unwrap_or_default();
        let (scores, merit) = self.scores(&translations)?;
        Ok(Validation { loss, scores, merit, sample: None })
    }

    /// The mean cross-entropy of a target token, without smoothing and dropout.
    fn cross_entropy(&self, Candidate { model, parameters, device, .. }: Candidate<'_>) -> Result<f64> {
        let (capture, tape) = (Capture::off(), Tape::inference());
        let options = CrossEntropyOptions { label_smoothing: 0.0, ignored_id: Some(model.config().pad_id) };
        let few = Rounding::Few { max_length: model.config().max_len };
        let rounding = if device.is_cpu() { Rounding::Exact } else { few };
        let mut parameters = parameters.clone();
        parameters.freeze_all();
        let parameters = &parameters.to_device(device)?;
        let pass = Pass::new(&tape, parameters, &capture);
        let (mut sum, mut tokens) = (0.0, 0);
        for index in 0..self.batches.len() {
            let Some(batch) = self.batches.batch(index, 1, rounding) else { break };
            let Batch { source, target, expected, .. } = batch.to_device(device)?;
            let loss = device.scratch(|| -> Result<f32> {
                let loss = model.loss(&pass, &source, &target, &expected, options)?;
                Ok(loss.value().to_host()?.data()[0])
            })?;
            sum += f64::from(loss) * batch.tokens as f64;
            tokens += batch.tokens;
        }
        Ok(sum / tokens as f64)
    }

    /// The translations of the model in its folder; none where `is_stopping` became true.
    fn translate(
        &self,
        Candidate { folder, device, .. }: Candidate<'_>,
        beam_size: usize,
        is_stopping: &dyn Fn() -> bool,
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
        for (to, end) in &self.parts {
            let options = TranslateOptions { to: to.clone(), ..options.clone() };
            // In parts, so that a run can be stopped between them; they are the same in every run.
            for part in texts[found.len()..*end].chunks(PART) {
                if is_stopping() {
                    return Ok(None);
                }
                let translations = engine.translate(part, &options)?;
                found.extend(translations.iter().map(|translation| translation.best().text.clone()));
            }
        }
        Ok(Some(found))
    }

    fn scores(&self, translations: &[String]) -> Result<(BTreeMap<String, f64>, f64)> {
        let bleu = Bleu::new(BleuOptions { tokenization: self.tokenization, ..BleuOptions::default() });
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
            Metric::Chrf | Metric::Loss => {
                score(&bleu)?;
                score(&chrf)?
            }
        };
        Ok((scores, merit))
    }
}

fn tokenization(name: &str) -> Result<Tokenization> {
    let all = [Tokenization::V13a, Tokenization::International, Tokenization::Characters, Tokenization::None];
    all.into_iter().find(|tokenization| tokenization.name() == name).ok_or_else(|| {
        let names = all.map(Tokenization::name).join(", ");
        Error::config(
            "validation.tokenize",
            format!("{name:?}, expected one of {names}"),
            "13a is the usual one",
        )
    })
}
