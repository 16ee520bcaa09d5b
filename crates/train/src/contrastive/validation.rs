//! Validation of text vectors: share of sources whose nearest target, of all in the validation set, is their own; correlation of
//! cosines with judgements; and the loss.

use std::collections::BTreeMap;

use polyhead_engine::{LoadOptions, LongTexts, TextEncoder};
use polyhead_text::batch::BatchOptions;
use rayon::prelude::*;

use super::Contrastive;
use super::dataset::{PairEpoch, TextPairs};
use super::judged::JudgedPairs;
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};
use crate::run_corpus::RunCorpus;

/// Texts encoded between two checks for a stop request.
const CHUNK: usize = 1024;

/// The validation pairs of a run.
#[derive(Debug)]
pub(crate) struct PairValidation {
    batches: PairEpoch,
    sources: Vec<String>,
    targets: Vec<String>,
    judged: Option<JudgedPairs>,
    metric: Metric,
    max_len: usize,
    skipped: usize,
}

impl PairValidation {
    pub(super) fn new(data: &TextPairs, corpora: &[RunCorpus], config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Accuracy | Metric::Spearman | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "accuracy, spearman or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for run_corpus in corpora {
            let mut pairs = run_corpus.corpus.pairs()?;
            let end = sources.len().saturating_add(most);
            while let Some(pair) = pairs.next_pair()?
                && sources.len() < end
            {
                if !pair.source.trim().is_empty() && !pair.target.trim().is_empty() {
                    sources.push(pair.source.to_owned());
                    targets.push(pair.target.to_owned());
                }
            }
        }
        // Batches as in training, in an order of their own: the loss of a pair depends on its batch.
        let max_rows = if config.train.max_rows == 0 { usize::MAX } else { config.train.max_rows };
        let options =
            BatchOptions { max_tokens: config.train.max_tokens, max_rows, ..BatchOptions::default() };
        let batches = data.epoch(options, 0)?;
        let skipped = data.skipped().too_long + data.skipped().empty;
        let max_len = config.model.max_len();
        let judged = config.validation.judged.as_deref().map(JudgedPairs::read).transpose()?;
        Ok(Self { batches, sources, targets, judged, metric, max_len, skipped })
    }

    /// Vectors of the sources, the targets, and the two texts of judged pairs; `None` if `watch` returned false.
    fn vectors(
        &self,
        candidate: Candidate<'_, Contrastive>,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<[Vec<Vec<f32>>; 4]>> {
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let encoder = TextEncoder::load(candidate.folder, &options)?;
        let none = Vec::new();
        let [a, b] = self.judged.as_ref().map_or([&none, &none], |judged| judged.texts.each_ref());
        let lists = [&self.sources, &self.targets, a, b];
        let all = lists.iter().map(|list| list.len()).sum();
        let mut vectors: [Vec<Vec<f32>>; 4] = Default::default();
        for (index, texts) in lists.into_iter().enumerate() {
            for part in texts.chunks(CHUNK) {
                if !watch(vectors.iter().map(Vec::len).sum(), all) {
                    return Ok(None);
                }
                let part: Vec<&str> = part.iter().map(String::as_str).collect();
                for found in encoder.embed(&part, LongTexts::Truncate)? {
                    vectors[index].push(found?.vector);
                }
            }
        }
        Ok(Some(vectors))
    }

    /// The target that is nearest to each source.
    fn nearest(sources: &[Vec<f32>], targets: &[Vec<f32>]) -> Vec<usize> {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let nearest = |source: &Vec<f32>| {
            let scores = targets.iter().map(|target| product(source, target)).enumerate();
            // Of equals the first.
            let best = scores.reduce(|best, next| if next.1 > best.1 { next } else { best });
            best.map_or(0, |(index, _)| index)
        };
        sources.par_iter().map(nearest).collect()
    }

    fn validation(
        &self,
        candidate: Candidate<'_, Contrastive>,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<(Validation, Vec<usize>)>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let Some([sources, targets, a, b]) = self.vectors(candidate, watch)? else { return Ok(None) };
        let nearest = Self::nearest(&sources, &targets);
        // A text may be the partner of several.
        let is_own = |(row, found): (usize, &usize)| self.targets[*found] == self.targets[row];
        let right = nearest.iter().enumerate().filter(|row| is_own(*row)).count();
        let accuracy = 100.0 * right as f64 / nearest.len().max(1) as f64;
        let mut scores = BTreeMap::from([("accuracy".to_owned(), accuracy)]);
        let spearman = self.judged.as_ref().map(|judged| judged.agreement([&a, &b]));
        scores.extend(spearman.map(|own| ("spearman".to_owned(), own)));
        let merit = match (self.metric, spearman) {
            (Metric::Spearman, Some(own)) => own,
            (Metric::Accuracy, _) => accuracy,
            _ => -loss,
        };
        Ok(Some((Validation { loss, scores, merit, labels: Vec::new(), sample: None }, nearest)))
    }
}

impl ValidationSet<Contrastive> for PairValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Contrastive>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let Some((found, nearest)) = self.validation(candidate, watch)? else { return Ok(None) };
        let sample = stage.sample_of(self.sources.len()).map(|at| ValidationSample {
            source: self.sources[at].clone(),
            reference: self.targets[at].clone(),
            output: self.targets[nearest[at]].clone(),
        });
        Ok(Some(Validation { sample, ..found }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.sources.len(), self.skipped)
    }
}
