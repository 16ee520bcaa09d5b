//! Validation of a classifier: accuracy, macro F1 and cross-entropy of labels.

use std::collections::BTreeMap;

use polyhead_engine::{Classifier, LoadOptions};
use polyhead_text::batch::BatchOptions;
use polyhead_text::metrics::LabelCounts;

use super::Classification;
use super::dataset::{LabelledEpoch, LabelledTexts};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};
use crate::run_corpus::RunCorpus;

/// Texts classified between two checks for a stop request.
const CHUNK: usize = 1024;

/// The validation texts of a run.
#[derive(Debug)]
pub(crate) struct LabelledValidation {
    batches: LabelledEpoch,
    texts: Vec<String>,
    labels: Vec<String>,
    metric: Metric,
    max_len: usize,
    skipped: usize,
}

impl LabelledValidation {
    /// `reads` is true for texts that the model can read: one that it cannot must not end a run.
    pub(super) fn new(
        data: &LabelledTexts,
        corpora: &[RunCorpus],
        config: &RunConfig,
        reads: impl Fn(&str) -> Result<bool>,
    ) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Accuracy | Metric::F1 | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "accuracy, f1 or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let (mut texts, mut labels) = (Vec::new(), Vec::new());
        for run_corpus in corpora {
            let mut pairs = run_corpus.corpus.pairs()?;
            let end = texts.len().saturating_add(most);
            while let Some(pair) = pairs.next_pair()?
                && texts.len() < end
            {
                if !pair.target.trim().is_empty() && reads(pair.source)? {
                    texts.push(pair.source.to_owned());
                    labels.push(pair.target.trim().to_owned());
                }
            }
        }
        let max_tokens = config.train.max_tokens;
        let batches = data.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let skipped = data.skipped().too_long + data.skipped().empty;
        let max_len = config.model.max_len();
        Ok(Self { batches, texts, labels, metric, max_len, skipped })
    }

    /// The most probable label of each text; `None` if `watch` returned false.
    fn classify(
        &self,
        candidate: Candidate<'_, Classification>,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Vec<String>>> {
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let classifier = Classifier::load(candidate.folder, &options)?;
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let mut found = Vec::with_capacity(texts.len());
        for part in texts.chunks(CHUNK) {
            if !watch(found.len(), texts.len()) {
                return Ok(None);
            }
            found.extend(classifier.classify(part)?.into_iter().map(|mut classes| classes.remove(0).label));
        }
        Ok(Some(found))
    }

    fn validation(&self, loss: f64, found: &[String], sample: Option<ValidationSample>) -> Validation {
        let mut counts = LabelCounts::default();
        found.iter().zip(&self.labels).for_each(|(found, label)| counts.add(found, label));
        let (accuracy, f1) = (counts.accuracy(), counts.macro_f1());
        let merit = match self.metric {
            Metric::Accuracy => accuracy,
            Metric::F1 => f1,
            _ => -loss,
        };
        let scores = BTreeMap::from([("accuracy".into(), accuracy), ("macro F1".into(), f1)]);
        Validation { loss, scores, merit, labels: counts.labels(), sample }
    }
}

impl ValidationSet<Classification> for LabelledValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Classification>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let Some(found) = self.classify(candidate, watch)? else { return Ok(None) };
        let sample = stage.sample_of(self.texts.len()).map(|at| ValidationSample {
            source: self.texts[at].clone(),
            reference: self.labels[at].clone(),
            output: found[at].clone(),
        });
        Ok(Some(self.validation(loss, &found, sample)))
    }

    fn counts(&self) -> (usize, usize) {
        (self.texts.len(), self.skipped)
    }
}
