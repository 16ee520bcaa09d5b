//! Tagged sentences as ids with a label for each token, and the batches of every epoch.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use polyhead_models::encoder::NO_LABEL;
use polyhead_models::{Encoder, Ids};
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use polyhead_text::corpus::{Pairs, TaggedWords};
use polyhead_text::tokenizer::Tokenizer;

use crate::event::SkippedRows;
use crate::labels::{BatchLabels, LabelCounts};
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::{Error, Result};

/// Shown where a corpus has no tags that can be used.
const HINT: &str =
    "a corpus has a word and its tag on each line and an empty line after each sentence: conll = \"FILE\"";

/// All tags of the corpora with the number of their words.
pub(super) fn tags(corpora: &[RunCorpus]) -> Result<LabelCounts> {
    let mut found = LabelCounts::new();
    for run_corpus in corpora {
        let mut pairs = run_corpus.corpus.pairs()?;
        while let Some(sentence) = Sentence::next(&mut pairs)? {
            for tag in sentence.tags {
                *found.entry(tag).or_default() += run_corpus.repeat;
            }
        }
    }
    if found.len() < 2 {
        let message = format!("{} different tags, expected two or more", found.len());
        return Err(Error::config(RunCorpus::names(corpora), message, HINT));
    }
    Ok(found)
}

/// A sentence of a corpus.
#[derive(Debug, Clone)]
pub(super) struct Sentence {
    pub(super) line: u64,
    /// Its words with a space between.
    pub(super) text: String,
    pub(super) words: Vec<Range<usize>>,
    pub(super) tags: Vec<String>,
}

impl Sentence {
    /// The next sentence of a corpus of tagged words.
    pub(super) fn next(pairs: &mut Pairs) -> Result<Option<Self>> {
        let Some((line, text)) = pairs.next_pair()?.map(|pair| (pair.line, pair.source.to_owned())) else {
            return Ok(None);
        };
        let TaggedWords { ranges, tags } = pairs.words().cloned().unwrap_or_default();
        Ok(Some(Self { line, text, words: ranges, tags }))
    }
}

/// Turns sentences into ids and labels for a model that knows all their tags.
pub(super) struct Reader<'a> {
    tokenizer: &'a Tokenizer,
    /// Without weights: it lays out its input.
    model: &'a Encoder,
    known: HashMap<&'a str, u32>,
    max_length: usize,
}

/// Ids of a sentence with a label for each; [`NO_LABEL`] where there is none.
#[derive(Debug)]
struct Tokens {
    ids: Vec<u32>,
    labels: Vec<u32>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, model: &'a Encoder, max_length: usize) -> Self {
        let known = model.labels().iter().zip(0..).map(|(label, index)| (label.as_str(), index)).collect();
        Self { tokenizer, model, known, max_length }
    }

    /// Reads and encodes corpora.
    pub(super) fn read(&self, corpora: &[RunCorpus]) -> Result<TaggedSentences> {
        let (sentences, lengths) = (Vec::new(), Vec::new());
        let mut rows = Rows { sentences, lengths, weights: None, model: self.model.clone() };
        let mut skipped = SkippedRows::default();
        for (number, run_corpus) in corpora.iter().enumerate() {
            for _ in 0..run_corpus.repeat {
                let mut pairs = run_corpus.corpus.pairs()?;
                while let Some(sentence) = Sentence::next(&mut pairs)? {
                    let tokens = self.encode(&sentence, run_corpus)?;
                    let n_labels = tokens.labels.iter().filter(|&&label| label != NO_LABEL).count();
                    if n_labels == 0 {
                        skipped.empty += 1;
                    } else if tokens.ids.len() > self.max_length {
                        skipped.too_long += 1;
                        skipped.first_too_long.get_or_insert((number, sentence.line, tokens.ids.len()));
                    } else {
                        rows.lengths
                            .push(PairLengths { source: tokens.ids.len() as u32, target: n_labels as u32 });
                        rows.sentences.push(tokens);
                    }
                }
            }
        }
        if rows.sentences.is_empty() {
            let SkippedRows { empty, too_long, .. } = skipped;
            let message = format!("no usable sentence ({empty} without words, {too_long} too long)");
            return Err(Error::config(RunCorpus::names(corpora), message, HINT));
        }
        Ok(TaggedSentences { rows: Arc::new(rows), skipped })
    }

    /// True if a sentence is one of those that [`Self::read`] keeps.
    pub(super) fn keeps(&self, sentence: &Sentence, run_corpus: &RunCorpus) -> Result<bool> {
        let Tokens { ids, labels } = self.encode(sentence, run_corpus)?;
        Ok(ids.len() <= self.max_length && labels.iter().any(|&label| label != NO_LABEL))
    }

    fn encode(&self, sentence: &Sentence, run_corpus: &RunCorpus) -> Result<Tokens> {
        let Sentence { line, text, words, tags } = sentence;
        let encoding = if self.model.has_special_tokens() {
            self.tokenizer.encode_with_special(text)?
        } else {
            self.tokenizer.encode(text)?
        };
        let mut labels = vec![NO_LABEL; encoding.len()];
        for (first, tag) in encoding.first_tokens(text, words).into_iter().zip(tags) {
            let label = self.known.get(tag.as_str()).copied().ok_or_else(|| {
                Error::run(
                    run_corpus.corpus.source_path(),
                    format!("the sentence of line {line}: tag {tag:?}, expected one of the training text"),
                    "correct the tag, or train on text that has it",
                )
            })?;
            if let Some(first) = first {
                labels[first] = label;
            }
        }
        Ok(Tokens { ids: encoding.ids, labels })
    }
}

/// Encoded sentences with their labels.
#[derive(Debug)]
pub(crate) struct TaggedSentences {
    rows: Arc<Rows>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct Rows {
    sentences: Vec<Tokens>,
    /// Tokens, and words with a label.
    lengths: Vec<PairLengths>,
    /// Weights of the labels, if they are not equal.
    weights: Option<Vec<f32>>,
    /// Without weights: it lays out its input.
    model: Encoder,
}

impl TaggedSentences {
    /// The same sentences with weights of their labels.
    pub(super) fn with_weights(mut self, weights: Option<Vec<f32>>) -> Self {
        if let Some(rows) = Arc::get_mut(&mut self.rows) {
            rows.weights = weights;
        }
        self
    }
}

impl objective::Dataset for TaggedSentences {
    type Batch = TaggedBatch;
    type Epoch = TaggedEpoch;

    fn len(&self) -> usize {
        self.rows.sentences.len()
    }

    /// Number of tokens, and of words with a label.
    fn tokens(&self) -> [usize; 2] {
        let sum =
            |side: fn(&PairLengths) -> u32| self.rows.lengths.iter().map(|own| side(own) as usize).sum();
        [sum(|own| own.source), sum(|own| own.target)]
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<TaggedEpoch> {
        let plan = Epoch::plan(&self.rows.lengths, options, number)?;
        Ok(TaggedEpoch { rows: Arc::clone(&self.rows), plan })
    }
}

/// A batch of tagged sentences.
#[derive(Debug, Clone)]
pub(crate) struct TaggedBatch {
    pub(super) texts: Ids,
    /// One label per token of the padded batch.
    pub(super) labels: BatchLabels,
}

impl objective::Batch for TaggedBatch {
    fn weight(&self) -> usize {
        self.labels.count
    }

    fn share(&self) -> f64 {
        self.labels.share
    }

    fn lists(&self) -> Vec<&Indices> {
        [self.texts.ids(), self.texts.lengths()].into_iter().chain(self.labels.lists()).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [ids, lengths] = [0, 1].map(|index| lists[index].clone());
        Self { texts: self.texts.with(ids, lengths), labels: self.labels.with(&lists[2..]) }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.texts.rows(), self.texts.length(), 1]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct TaggedEpoch {
    rows: Arc<Rows>,
    plan: Epoch,
}

impl TaggedEpoch {
    /// `[rows, length, 1]` of all batches.
    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan
            .batches()
            .map(move |batch| [rounding.rows(batch.len()), self.padded_length(batch, rounding), 1])
    }

    fn padded_length(&self, batch: &[u32], rounding: Rounding) -> usize {
        let longest = batch.iter().map(|&row| self.rows.sentences[row as usize].ids.len()).max().unwrap_or(0);
        self.rows.model.padded_length(rounding.length(longest).max(1))
    }
}

impl EpochBatches for TaggedEpoch {
    type Batch = TaggedBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<TaggedBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let (n_rows, length) = (rounding.rows(batch.len()), self.padded_length(batch, rounding));
        let sentences = || batch.iter().map(|&row| &self.rows.sentences[row as usize]);
        let mut labels = Vec::with_capacity(n_rows * length);
        for (row, Tokens { labels: own, .. }) in sentences().enumerate() {
            labels.extend_from_slice(own);
            labels.resize((row + 1) * length, NO_LABEL);
        }
        labels.resize(n_rows * length, NO_LABEL);
        let texts = sentences().map(|sentence| Some(sentence.ids.as_slice()));
        let texts: Vec<Option<&[u32]>> = texts.chain(std::iter::repeat(None)).take(n_rows).collect();
        let all = (0..copies).flat_map(|_| texts.iter().copied());
        Some(TaggedBatch {
            texts: self.rows.model.padded(all, length),
            labels: BatchLabels::new(&labels, copies, self.rows.weights.as_deref()),
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded = self.sizes(rounding).map(|[rows, length, _]| (rows * length) as u64).sum();
        PaddingStats { tokens: self.rows.lengths.iter().map(|own| u64::from(own.source)).sum(), padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        self.sizes(rounding).max_by_key(|[rows, length, _]| rows * length).unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
