//! Validation of a tagger: F1 of spans, accuracy and cross-entropy of the tags of words.

use std::collections::BTreeMap;

use polyhead_engine::LoadOptions;
use polyhead_engine::encoder::LongTexts;
use polyhead_engine::encoder::tag::{Tagger, TextOfWords};
use polyhead_text::batch::BatchOptions;
use polyhead_text::metrics::LabelCounts;
use polyhead_text::spans::{SpanCounts, spans};

use super::Tagging;
use super::dataset::{Reader, Sentence, TaggedEpoch};
use crate::Result;
use crate::config::{Metric, RunConfig};
use crate::objective::{
    Candidate, Dataset as _, Stage, Validation, ValidationSample, ValidationSet, ValidationWatch,
    unsupported_metric,
};
use crate::run_corpus::RunCorpus;

/// Sentences tagged between two checks for a stop request.
const CHUNK: usize = 1024;

/// The validation sentences of a run.
#[derive(Debug)]
pub(crate) struct TaggedValidation {
    batches: TaggedEpoch,
    sentences: Vec<Sentence>,
    metric: Metric,
    max_len: usize,
    skipped: usize,
}

/// The tag found for each word of a sentence; `None` for a word without a token.
type Found = Vec<Option<String>>;

impl TaggedValidation {
    pub(super) fn new(reader: &Reader<'_>, corpora: &[RunCorpus], config: &RunConfig) -> Result<Self> {
        let metric = config.validation.metric;
        if !matches!(metric, Metric::F1 | Metric::Accuracy | Metric::Loss) {
            return Err(unsupported_metric(metric.name(), "f1, accuracy or loss"));
        }
        let data = reader.read(corpora)?;
        let most = if config.validation.max_pairs == 0 { usize::MAX } else { config.validation.max_pairs };
        let mut sentences = Vec::new();
        for run_corpus in corpora {
            let mut pairs = run_corpus.corpus.pairs()?;
            let end = sentences.len().saturating_add(most);
            while sentences.len() < end
                && let Some(sentence) = Sentence::next(&mut pairs)?
            {
                if reader.keeps(&sentence, run_corpus)? {
                    sentences.push(sentence);
                }
            }
        }
        let max_tokens = config.train.max_tokens;
        let batches = data.epoch(BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        let skipped = data.skipped().too_long + data.skipped().empty;
        let max_len = config.model.max_len();
        Ok(Self { batches, sentences, metric, max_len, skipped })
    }

    /// The tags of each sentence; `None` if `watch` returned false.
    fn tag(
        &self,
        candidate: Candidate<'_, Tagging>,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Vec<Found>>> {
        let options = LoadOptions { device: candidate.device.clone(), ..LoadOptions::default() };
        let tagger = Tagger::load(candidate.folder, &options)?;
        let labels = tagger.encoder().model().labels();
        let mut found: Vec<Found> = Vec::with_capacity(self.sentences.len());
        for part in self.sentences.chunks(CHUNK) {
            if !watch(found.len(), self.sentences.len()) {
                return Ok(None);
            }
            let texts: Vec<TextOfWords<'_>> =
                part.iter().map(|own| TextOfWords { text: &own.text, words: &own.words }).collect();
            for classes in tagger.classes_of_words(&texts, LongTexts::Refuse)? {
                let tag = |class: Option<(usize, f32)>| class.map(|(class, _)| labels[class].clone());
                found.push(classes?.into_iter().map(tag).collect());
            }
        }
        Ok(Some(found))
    }

    fn validation(&self, loss: f64, found: &[Found], sample: Option<ValidationSample>) -> Validation {
        let (mut words, mut counts) = (LabelCounts::default(), SpanCounts::default());
        for (found, Sentence { tags, .. }) in found.iter().zip(&self.sentences) {
            let found = || found.iter().map(Option::as_deref);
            for (found, tag) in found().zip(tags) {
                words.add(found.unwrap_or_default(), tag);
            }
            counts.add(found(), tags.iter().map(|tag| Some(tag.as_str())));
        }
        let (accuracy, f1) = (words.accuracy(), counts.total().f1);
        let merit = match self.metric {
            Metric::F1 => f1,
            Metric::Accuracy => accuracy,
            _ => -loss,
        };
        let scores = BTreeMap::from([("accuracy".into(), accuracy), ("F1".into(), f1)]);
        Validation { loss, scores, merit, labels: counts.types(), sample }
    }
}

impl ValidationSet<Tagging> for TaggedValidation {
    fn validate(
        &self,
        candidate: Candidate<'_, Tagging>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>> {
        let loss = candidate.cross_entropy(&self.batches, self.max_len)?;
        let Some(found) = self.tag(candidate, watch)? else { return Ok(None) };
        let sample = stage.sample_of(self.sentences.len()).map(|at| {
            let sentence = &self.sentences[at];
            ValidationSample {
                source: sentence.text.clone(),
                reference: shown(sentence, sentence.tags.iter().map(|tag| Some(tag.as_str()))),
                output: shown(sentence, found[at].iter().map(Option::as_deref)),
            }
        });
        Ok(Some(self.validation(loss, &found, sample)))
    }

    fn counts(&self) -> (usize, usize) {
        (self.sentences.len(), self.skipped)
    }
}

/// The spans of a sentence with their types.
fn shown<'a>(sentence: &'a Sentence, tags: impl Iterator<Item = Option<&'a str>>) -> String {
    let text = |span: polyhead_text::spans::Span<'_>| {
        let [first, last] = [span.words.start, span.words.end - 1].map(|word| sentence.words[word].clone());
        format!("{}: {}", span.label, &sentence.text[first.start..last.end])
    };
    let all: Vec<String> = spans(tags).into_iter().map(text).collect();
    if all.is_empty() { "nothing".into() } else { all.join("; ") }
}
