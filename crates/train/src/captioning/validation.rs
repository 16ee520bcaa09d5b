//! Validation of a captioner: the facts that its captions have right, BLEU and chrF against all captions of an image, and
//! cross-entropy of the references.

use std::collections::BTreeMap;

use polyhead_engine::image::{CaptionOptions, ImageOptions, Picture};
use polyhead_engine::scene::FactCounts;
use polyhead_engine::{CaptionEngine, LoadOptions};
use polyhead_text::batch::BatchOptions;
use polyhead_text::metrics::{Bleu, Chrf, Metric as _, Statistics};

use super::Captioning;
use super::dataset::{CaptionEpoch, CaptionRows, Described};
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};
use crate::{Error, Result};

/// Images described between two checks for a stop request.
const CHUNK: usize = 128;
/// Name of the share of facts among the scores.
const FACTS: &str = "facts";

/// The validation images of a run.
#[derive(Debug)]
pub(crate) struct CaptionValidation {
    batches: CaptionEpoch,
    images: Vec<Described>,
    /// Captions of each image; images with fewer than others repeat their last one.
    references: Vec<Vec<String>>,
    metric: Metric,
    beam_size: usize,
    max_len: usize,
    /// Most tokens of a caption: an untrained model rarely writes an end token.
    max_tokens: usize,
    skipped: usize,
}

impl CaptionValidation {
    pub(super) fn new(data: &CaptionRows, config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Bleu | Metric::Chrf | Metric::Facts | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "bleu, chrf, facts or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let images = data.described(most);
        if let Some(without) = images.iter().find(|own| metric == Metric::Facts && own.facts.is_none()) {
            let message = format!("\"facts\", but nothing is known of {}", without.name.display());
            let hint =
                "name the facts of the scenes: valid = { tsv = \"valid.tsv\", facts = \"valid.jsonl\" }";
            return Err(Error::config("validation.metric", message, hint));
        }
        let most = images.iter().map(|own| own.captions.len()).max().unwrap_or(0);
        let reference = |number: usize| {
            let own = images.iter().map(|own| own.captions[number.min(own.captions.len() - 1)].clone());
            own.collect::<Vec<String>>()
        };
        let references = (0..most).map(reference).collect();
        let skipped = data.skipped();
        Ok(Self {
            batches: data.epoch(BatchOptions::default(), 0)?,
            references,
            images,
            metric,
            beam_size: config.validation.beam_size,
            max_len: config.model.max_len(),
            max_tokens: 2 * data.mean_length() + 10,
            skipped: skipped.too_long + skipped.empty,
        })
    }

    /// Merit and scores of captions.
    fn scores(&self, found: &[String], loss: f64) -> Result<(BTreeMap<String, f64>, f64)> {
        let (bleu, chrf) = (Bleu::default(), Chrf::default());
        let [bleu_score, chrf_score] = [
            Statistics::collect(&bleu, found, &self.references)?.score(&bleu),
            Statistics::collect(&chrf, found, &self.references)?.score(&chrf),
        ];
        let mut scores = BTreeMap::from([(bleu.name(), bleu_score), (chrf.name(), chrf_score)]);
        let known: Option<Vec<FactCounts>> = self
            .images
            .iter()
            .zip(found)
            .map(|(image, text)| image.facts.as_ref().map(|facts| facts.score(text)))
            .collect();
        let mut merit = match self.metric {
            Metric::Bleu => bleu_score,
            Metric::Chrf => chrf_score,
            _ => -loss,
        };
        if let Some(known) = known {
            let mut counts = FactCounts::default();
            for own in &known {
                counts.add(own);
            }
            scores.insert(FACTS.to_owned(), counts.percent());
            if self.metric == Metric::Facts {
                merit = counts.percent();
            }
        }
        Ok((scores, merit))
    }
}

impl ValidationSet<Captioning> for CaptionValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Captioning>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let engine = CaptionEngine::load(candidate.folder, &options, ImageOptions::default())?;
        let options = CaptionOptions {
            beam_size: Some(stage.beam_size(self.beam_size)),
            max_tokens: Some(self.max_tokens),
        };
        let mut found: Vec<String> = Vec::with_capacity(self.images.len());
        for part in self.images.chunks(CHUNK) {
            if !watch(found.len(), self.images.len()) {
                return Ok(None);
            }
            let pictures: Vec<Picture> = part.iter().map(|own| own.picture.clone()).collect();
            let captions = engine.caption_framed(&pictures, &options)?;
            found.extend(captions.into_iter().map(|caption| caption.text));
        }
        let (scores, merit) = self.scores(&found, loss)?;
        let sample = stage.sample_of(self.images.len()).map(|at| ValidationSample {
            source: self.images[at].name.display().to_string(),
            reference: self.images[at].captions[0].clone(),
            output: found[at].clone(),
        });
        Ok(Some(Validation { loss, scores, merit, labels: Vec::new(), sample }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.images.len(), self.skipped)
    }
}
