//! Validation of a masked language model: cross-entropy and accuracy of hidden tokens, the same ones in every validation.

use std::collections::BTreeMap;

use polyhead_attention::{Capture, Pass};
use polyhead_engine::encoder::fill::Filler;
use polyhead_engine::{LoadOptions, LongTexts};
use polyhead_tensor::Tape;
use polyhead_tensor::ops::best_tokens::best_tokens;
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_text::batch::BatchOptions;

use super::dataset::{MaskedBatch, MaskedEpoch, MaskedText};
use super::{MaskedLanguageModelling, NOT_COUNTED};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Batch as _, Candidate, Dataset as _, EpochBatches as _, Stage, Validation, ValidationSample,
    ValidationSet, ValidationWatch, rounding, unsupported_metric,
};
use crate::run_corpus::RunCorpus;

/// Tokens of a batch at most: all its logits are in memory.
const MAX_TOKENS: usize = 8192;
/// Lines that samples are made of.
const MAX_SAMPLES: usize = 64;

/// The validation text of a run.
#[derive(Debug)]
pub(crate) struct MaskedValidation {
    batches: MaskedEpoch,
    metric: Metric,
    n_rows: usize,
    max_len: usize,
    /// Lines of a few words.
    samples: Vec<Vec<String>>,
}

/// Sums over the batches of a validation.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    loss: f64,
    right: usize,
    count: usize,
}

impl MaskedValidation {
    pub(super) fn new(text: &MaskedText, corpora: &[RunCorpus], config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::Accuracy | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "accuracy or loss"));
        }
        let longest = config.data.max_length.min(config.model.max_len());
        let max_tokens = config.train.max_tokens.min(MAX_TOKENS).max(longest);
        // The seed of the options decides the masks: it is not that of the run.
        let batches = text.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let mut samples = Vec::new();
        for run_corpus in corpora {
            let mut lines = run_corpus.corpus.pairs()?;
            while let Some(line) = lines.next_pair()?
                && samples.len() < MAX_SAMPLES
            {
                let words: Vec<String> = line.source.split_whitespace().map(str::to_owned).collect();
                if (3..=40).contains(&words.len()) {
                    samples.push(words);
                }
            }
        }
        Ok(Self { batches, metric, n_rows: text.len(), max_len: config.model.max_len(), samples })
    }

    fn validation(
        &self,
        candidate: Candidate<'_, MaskedLanguageModelling>,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let Candidate { objective, parameters, device, .. } = candidate;
        let (capture, tape) = (Capture::off(), Tape::inference());
        let mut parameters = parameters.clone();
        parameters.freeze_all();
        let parameters = &parameters.to_device(device)?;
        let pass = Pass::new(&tape, parameters, &capture);
        let (mut sums, mut rows) = (Sums::default(), 0);
        for index in 0..self.batches.len() {
            if !watch(rows.min(self.n_rows), self.n_rows) {
                return Ok(None);
            }
            let Some(batch) = self.batches.batch(index, 1, rounding(device, self.max_len)) else { break };
            rows += batch.sizes()[0];
            let moved = batch.to_device(device)?;
            device.scratch(|| objective.count(&pass, (&moved, &batch), &mut sums))?;
        }
        let accuracy = 100.0 * sums.right as f64 / sums.count.max(1) as f64;
        let loss = sums.loss / sums.count.max(1) as f64;
        let merit = if self.metric == Metric::Accuracy { accuracy } else { -loss };
        let scores = BTreeMap::from([("accuracy".into(), accuracy)]);
        Ok(Some(Validation { loss, scores, merit, labels: Vec::new(), sample: None }))
    }

    /// A line of the text with a word hidden, and the word that the model expects.
    fn sample(
        &self,
        candidate: Candidate<'_, MaskedLanguageModelling>,
        at: usize,
    ) -> Result<Option<ValidationSample>> {
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let filler = Filler::load(candidate.folder, &options)?;
        let mut words = self.samples[at].clone();
        let middle = words.len() / 2;
        let reference = std::mem::replace(&mut words[middle], filler.mask().to_owned());
        let source = words.join(" ");
        let found = filler.fill(&[&source], 1, LongTexts::Truncate)?.remove(0).ok();
        let output = found.and_then(|found| Some(found.masks.first()?.first()?.word.clone()));
        Ok(output.map(|output| ValidationSample { source, reference, output }))
    }
}

impl MaskedLanguageModelling {
    /// Adds the loss and the right tokens of a batch, which is on the device and in CPU memory.
    fn count(
        &self,
        pass: &Pass<'_>,
        (moved, batch): (&MaskedBatch, &MaskedBatch),
        sums: &mut Sums,
    ) -> Result<()> {
        let states = self.model.states_at(pass, &moved.ids, &moved.positions)?;
        let logits = self.model.word_logits(pass, states)?;
        let options = CrossEntropyOptions { ignored_id: Some(NOT_COUNTED), ..CrossEntropyOptions::default() };
        let loss = cross_entropy(pass.tape, &logits, &moved.words, options)?;
        let best = best_tokens(logits.value(), 1)?;
        let right = best.iter().zip(batch.words.host());
        let right = right.filter(|(best, word)| best.first().is_some_and(|best| best.id == **word));
        sums.right += right.count();
        sums.loss += f64::from(loss.value().to_host()?.data()[0]) * batch.weight() as f64;
        sums.count += batch.weight();
        Ok(())
    }
}

impl ValidationSet<MaskedLanguageModelling> for MaskedValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, MaskedLanguageModelling>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let Some(found) = self.validation(candidate, watch)? else { return Ok(None) };
        let sample = stage.sample_of(self.samples.len()).map(|at| self.sample(candidate, at)).transpose()?;
        Ok(Some(Validation { sample: sample.flatten(), ..found }))
    }

    fn counts(&self) -> (usize, usize) {
        (self.n_rows, 0)
    }
}
