//! Validation of a pointer network: answers against expected ones, and their cross-entropy.

use std::collections::BTreeMap;

use polyhead_engine::point::{PointRow, PointScores};
use polyhead_engine::{LoadOptions, PointEngine};
use polyhead_models::pointer::SearchOptions;
use polyhead_text::batch::BatchOptions;

use super::Pointing;
use super::dataset::{PointEpoch, PointRows};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};

/// Rows answered between two checks for a stop request.
const CHUNK: usize = 256;

/// The validation rows of a run.
#[derive(Debug)]
pub(crate) struct PointValidation {
    batches: PointEpoch,
    rows: Vec<PointRow>,
    metric: Metric,
    beam_size: usize,
    max_len: usize,
    skipped: usize,
}

impl PointValidation {
    pub(super) fn new(data: &PointRows, config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Accuracy | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "accuracy or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let max_tokens = config.train.max_tokens;
        Ok(Self {
            batches: data.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?,
            rows: data.rows().iter().take(most).cloned().collect(),
            metric,
            beam_size: config.validation.beam_size,
            max_len: config.model.max_len(),
            skipped: data.skipped().too_long,
        })
    }
}

impl ValidationSet<Pointing> for PointValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Pointing>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let engine = PointEngine::load(candidate.folder, &options)?;
        let mut found: Vec<Vec<u32>> = Vec::with_capacity(self.rows.len());
        for part in self.rows.chunks(CHUNK) {
            if !watch(found.len(), self.rows.len()) {
                return Ok(None);
            }
            let answers = engine.solve(part, SearchOptions { beam_size: stage.beam_size(self.beam_size) })?;
            found.extend(answers.into_iter().map(|mut answers| answers.remove(0).order));
        }
        let pairs = self.rows.iter().zip(found.iter().map(Vec::as_slice));
        let scores = PointScores::of(pairs, engine.model().config().answer);
        let mut all = BTreeMap::from([
            ("accuracy".to_owned(), scores.sequences),
            ("positions".to_owned(), scores.positions),
        ]);
        all.extend(scores.tour.map(|ratio| ("tour".to_owned(), ratio)));
        all.extend(scores.area.map(|ratio| ("area".to_owned(), 100.0 * ratio)));
        all.extend(scores.triangles.map(|share| ("triangles".to_owned(), share)));
        let sample = stage.sample_of(self.rows.len()).map(|at| {
            let row = &self.rows[at];
            let labels = |order: &[u32]| {
                order.iter().map(|&point| row.label(point as usize)).collect::<Vec<_>>().join(" ")
            };
            ValidationSample {
                source: labels(&(0..row.len() as u32).collect::<Vec<_>>()),
                reference: labels(row.order.as_deref().unwrap_or_default()),
                output: labels(&found[at]),
            }
        });
        let merit = if self.metric == Metric::Accuracy { scores.sequences } else { -loss };
        Ok(Some(Validation { loss, scores: all, merit, labels: Vec::new(), sample }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.rows.len(), self.skipped)
    }
}
