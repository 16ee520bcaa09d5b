//! Validation of an image classifier: accuracy, macro F1 and cross-entropy of labels.

use std::collections::BTreeMap;

use polyhead_engine::image::sets::ImageSet;
use polyhead_engine::image::{ImageOptions, Preprocessor};
use polyhead_engine::{ImageClassifier, LoadOptions};
use polyhead_text::metrics::LabelCounts;

use super::ImageClassification;
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch, unsupported_metric,
};

/// Images classified between two checks for a stop request.
const CHUNK: usize = 512;

/// The validation images of a run.
#[derive(Debug)]
pub(crate) struct ImageValidation {
    set: ImageSet,
    preprocessor: Preprocessor,
    metric: Metric,
    count: usize,
}

impl ImageValidation {
    pub(super) fn new(set: ImageSet, preprocessor: &Preprocessor, config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Accuracy | Metric::F1 | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "accuracy, f1 or loss"));
        }
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let count = set.len().min(most);
        Ok(Self { set, preprocessor: preprocessor.clone(), metric, count })
    }
}

impl ValidationSet<ImageClassification> for ImageValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, ImageClassification>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let sized = ImageOptions { size: Some(self.set.size) };
        let classifier = ImageClassifier::load(candidate.folder, &options, sized)?;
        let name = |index: usize| self.set.names[self.set.labels[index] as usize].as_str();
        let (mut counts, mut loss, mut found) = (LabelCounts::default(), 0.0, Vec::with_capacity(self.count));
        for start in (0..self.count).step_by(CHUNK) {
            if !watch(start, self.count) {
                return Ok(None);
            }
            let rows = start..(start + CHUNK).min(self.count);
            let pictures: Vec<Vec<f32>> =
                rows.clone().map(|index| self.preprocessor.normalised(&self.set.picture(index))).collect();
            for (index, mut classes) in rows.zip(classifier.classify_normalised(&pictures, None)?) {
                let own = classes.iter().find(|class| class.label == name(index));
                let probability = own.map_or(0.0, |class| class.probability);
                loss -= probability.max(f64::from(f32::MIN_POSITIVE)).ln();
                let label = classes.swap_remove(0).label;
                counts.add(&label, name(index));
                found.push(label);
            }
        }
        let (accuracy, f1) = (counts.accuracy(), counts.macro_f1());
        let loss = loss / self.count as f64;
        let merit = match self.metric {
            Metric::Accuracy => accuracy,
            Metric::F1 => f1,
            _ => -loss,
        };
        let sample = stage.sample_of(self.count).map(|at| ValidationSample {
            source: format!("image {at}"),
            reference: name(at).to_owned(),
            output: found[at].clone(),
        });
        let scores = BTreeMap::from([("accuracy".into(), accuracy), ("macro F1".into(), f1)]);
        Ok(Some(Validation { loss, scores, merit, labels: counts.labels(), sample }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.count, 0)
    }
}
