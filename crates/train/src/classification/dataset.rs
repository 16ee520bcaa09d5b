//! Labelled texts as ids, and the batches of every epoch. Texts are the source of a corpus, labels its target.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use polyhead_models::encoder::NO_LABEL;
use polyhead_models::{Encoder, Ids};
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};

use crate::event::SkippedRows;
use crate::labels::{BatchLabels, LabelCounts};
use crate::objective::{self, EpochBatches};
use crate::preparation::encoder_ids;
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// All labels of the corpora with the number of their texts.
pub(super) fn labels(corpora: &[RunCorpus]) -> Result<LabelCounts> {
    let mut found = LabelCounts::new();
    for run_corpus in corpora {
        let mut pairs = run_corpus.corpus.pairs()?;
        while let Some(pair) = pairs.next_pair()? {
            let label = pair.target.trim();
            if let Some(count) = found.get_mut(label) {
                *count += run_corpus.repeat;
            } else if !label.is_empty() {
                found.insert(label.to_owned(), run_corpus.repeat);
            }
        }
    }
    if found.len() < 2 {
        return Err(Error::config(
            RunCorpus::names(corpora),
            format!("{} labels, expected two or more", found.len()),
            "a corpus has a text and a label on each line: tsv = \"FILE\" with two columns",
        ));
    }
    Ok(found)
}

/// Encoded texts with their labels.
#[derive(Debug)]
pub(crate) struct LabelledTexts {
    rows: Arc<Rows>,
    skipped: SkippedRows,
}

/// Texts as ids, and the indices of their labels.
#[derive(Debug)]
struct Rows {
    texts: Vec<Vec<u32>>,
    labels: Vec<u32>,
    lengths: Vec<PairLengths>,
    /// Weights of the labels, if they are not equal.
    weights: Option<Vec<f32>>,
    /// Without weights: it lays out its input.
    model: Encoder,
}

impl LabelledTexts {
    /// Reads and encodes corpora for a model that knows all their labels.
    pub(super) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        model: &Encoder,
        max_length: usize,
    ) -> Result<Self> {
        let known: HashMap<&str, u32> =
            model.labels().iter().zip(0..).map(|(label, index)| (label.as_str(), index)).collect();
        let (texts, labels, lengths) = Default::default();
        let mut rows = Rows { texts, labels, lengths, weights: None, model: model.clone() };
        let mut skipped = SkippedRows::default();
        for (number, run_corpus) in corpora.iter().enumerate() {
            for _ in 0..run_corpus.repeat {
                let mut pairs = run_corpus.corpus.pairs()?;
                while let Some(pair) = pairs.next_pair()? {
                    let label = pair.target.trim();
                    let ids = encoder_ids(vocabulary, model, pair.source)?;
                    if ids.is_empty() || label.is_empty() {
                        skipped.empty += 1;
                    } else if ids.len() > max_length {
                        skipped.too_long += 1;
                        skipped.first_too_long.get_or_insert((number, pair.line, ids.len()));
                    } else {
                        let label = known.get(label).copied().ok_or_else(|| {
                            Error::run(
                                run_corpus.corpus.source_path(),
                                format!(
                                    "line {}: label {label:?}, expected one of the training text",
                                    pair.line
                                ),
                                "correct the label, or train on texts that have it",
                            )
                        })?;
                        rows.lengths.push(PairLengths { source: ids.len() as u32, target: 1 });
                        rows.texts.push(ids);
                        rows.labels.push(label);
                    }
                }
            }
        }
        if rows.texts.is_empty() {
            let SkippedRows { empty, too_long, .. } = skipped;
            return Err(Error::config(
                RunCorpus::names(corpora),
                format!("no usable text ({empty} without text or label, {too_long} too long)"),
                "a corpus has a text and a label on each line: tsv = \"FILE\" with two columns",
            ));
        }
        Ok(Self { rows: Arc::new(rows), skipped })
    }

    /// The same texts with weights of their labels.
    pub(super) fn with_weights(mut self, weights: Option<Vec<f32>>) -> Self {
        if let Some(rows) = Arc::get_mut(&mut self.rows) {
            rows.weights = weights;
        }
        self
    }
}

impl objective::Dataset for LabelledTexts {
    type Batch = LabelledBatch;
    type Epoch = LabelledEpoch;

    fn len(&self) -> usize {
        self.rows.labels.len()
    }

    /// Number of tokens, and of labels.
    fn tokens(&self) -> [usize; 2] {
        [self.rows.texts.iter().map(Vec::len).sum(), self.rows.labels.len()]
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<LabelledEpoch> {
        let plan = Epoch::plan(&self.rows.lengths, options, number)?;
        Ok(LabelledEpoch { rows: Arc::clone(&self.rows), plan })
    }
}

/// A batch of labelled texts.
#[derive(Debug, Clone)]
pub(crate) struct LabelledBatch {
    pub(super) texts: Ids,
    /// One label per row; [`NO_LABEL`] for padding rows.
    pub(super) labels: BatchLabels,
}

impl objective::Batch for LabelledBatch {
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
pub(crate) struct LabelledEpoch {
    rows: Arc<Rows>,
    plan: Epoch,
}

impl LabelledEpoch {
    /// `[rows, length, 1]` of all batches.
    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan
            .batches()
            .map(move |batch| [rounding.rows(batch.len()), self.padded_length(batch, rounding), 1])
    }

    fn padded_length(&self, batch: &[u32], rounding: Rounding) -> usize {
        let longest = batch.iter().map(|&row| self.rows.texts[row as usize].len()).max().unwrap_or(0);
        self.rows.model.padded_length(rounding.length(longest).max(1))
    }
}

impl EpochBatches for LabelledEpoch {
    type Batch = LabelledBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<LabelledBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let n_rows = rounding.rows(batch.len());
        let texts = batch.iter().map(|&row| Some(self.rows.texts[row as usize].as_slice()));
        let texts: Vec<Option<&[u32]>> = texts.chain(std::iter::repeat(None)).take(n_rows).collect();
        let labels = batch.iter().map(|&row| self.rows.labels[row as usize]);
        let labels: Vec<u32> = labels.chain(std::iter::repeat(NO_LABEL)).take(n_rows).collect();
        let all = (0..copies).flat_map(|_| texts.iter().copied());
        Some(LabelledBatch {
            texts: self.rows.model.padded(all, self.padded_length(batch, rounding)),
            labels: BatchLabels::new(&labels, copies, self.rows.weights.as_deref()),
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded = self.sizes(rounding).map(|[rows, length, _]| (rows * length) as u64).sum();
        PaddingStats { tokens: self.rows.texts.iter().map(|text| text.len() as u64).sum(), padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        self.sizes(rounding).max_by_key(|[rows, length, _]| rows * length).unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
