//! Pairs of texts as ids, and the batches of every epoch. A batch has all its pairs and no padding rows: every row is compared with
//! every other.

use std::collections::HashSet;
use std::sync::Arc;

use polyhead_models::{Encoder, Ids};
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};

use crate::config::ContrastiveConfig;
use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::preparation::encoder_ids;
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Encoded pairs of texts.
#[derive(Debug)]
pub(crate) struct TextPairs {
    rows: Arc<Rows>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct Rows {
    /// Source and target of each pair.
    texts: Vec<[Vec<u32>; 2]>,
    lengths: Vec<PairLengths>,
    config: ContrastiveConfig,
    /// Without weights: it lays out its input.
    model: Encoder,
}

impl TextPairs {
    /// Reads and encodes corpora, without pairs of which a text has more than `longest` tokens.
    pub(crate) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        model: &Encoder,
        (longest, config): (usize, ContrastiveConfig),
    ) -> Result<Self> {
        let mut rows = Rows { texts: Vec::new(), lengths: Vec::new(), config, model: model.clone() };
        let mut skipped = SkippedRows::default();
        for (number, run_corpus) in corpora.iter().enumerate() {
            for _ in 0..run_corpus.repeat {
                let mut pairs = run_corpus.corpus.pairs()?;
                while let Some(pair) = pairs.next_pair()? {
                    let source = encoder_ids(vocabulary, model, pair.source)?;
                    let target = encoder_ids(vocabulary, model, pair.target)?;
                    let longer = source.len().max(target.len());
                    if source.is_empty() || target.is_empty() {
                        skipped.empty += 1;
                    } else if longer > longest {
                        skipped.too_long += 1;
                        skipped.first_too_long.get_or_insert((number, pair.line, longer));
                    } else {
                        let [own, other] = [&source, &target].map(|text| text.len() as u32);
                        rows.lengths.push(PairLengths { source: own, target: other });
                        rows.texts.push([source, target]);
                    }
                }
            }
        }
        if rows.texts.is_empty() {
            let SkippedRows { empty, too_long, .. } = skipped;
            return Err(Error::config(
                RunCorpus::names(corpora),
                format!("no usable pair ({empty} with an empty text, {too_long} too long)"),
                "a corpus has two texts on each line: tsv = \"FILE\" with two columns",
            ));
        }
        Ok(Self { rows: Arc::new(rows), skipped })
    }
}

impl objective::Dataset for TextPairs {
    type Batch = PairBatch;
    type Epoch = PairEpoch;

    fn len(&self) -> usize {
        self.rows.texts.len()
    }

    fn tokens(&self) -> [usize; 2] {
        [0, 1].map(|side| self.rows.texts.iter().map(|pair| pair[side].len()).sum())
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<PairEpoch> {
        let plan = Epoch::plan(&self.rows.lengths, options, number)?;
        Ok(PairEpoch { rows: Arc::clone(&self.rows), plan })
    }
}

/// A batch of pairs.
#[derive(Debug, Clone)]
pub(crate) struct PairBatch {
    pub(crate) sources: Ids,
    pub(crate) targets: Ids,
    /// The row of each row's partner: its own.
    pub(crate) partners: Indices,
    pub(crate) config: ContrastiveConfig,
}

impl objective::Batch for PairBatch {
    fn weight(&self) -> usize {
        self.partners.len()
    }

    fn lists(&self) -> Vec<&Indices> {
        let Self { sources, targets, partners, .. } = self;
        vec![sources.ids(), sources.lengths(), targets.ids(), targets.lengths(), partners]
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [ids, lengths, other_ids, other_lengths, partners] =
            <[Indices; 5]>::try_from(lists.to_vec()).expect("a batch has five lists");
        let sources = self.sources.with(ids, lengths);
        Self { sources, targets: self.targets.with(other_ids, other_lengths), partners, config: self.config }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.sources.rows(), self.sources.length(), self.targets.length()]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct PairEpoch {
    rows: Arc<Rows>,
    plan: Epoch,
}

impl PairEpoch {
    /// Rows, source length and target length of a batch.
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 3] {
        let longest = |side: usize| {
            let lengths = batch.iter().map(|&row| self.rows.texts[row as usize][side].len());
            self.rows.model.padded_length(rounding.length(lengths.max().unwrap_or(0)).max(1))
        };
        [batch.len(), longest(0), longest(1)]
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }
}

impl EpochBatches for PairEpoch {
    type Batch = PairBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<PairBatch> {
        debug_assert_eq!(copies, 1, "R-Drop is refused");
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, source_length, target_length] = self.size(batch, rounding);
        let side = |side: usize, length: usize| {
            let texts = batch.iter().map(|&row| Some(self.rows.texts[row as usize][side].as_slice()));
            self.rows.model.padded(texts, length)
        };
        let partners: Vec<u32> = (0..n_rows as u32).collect();
        Some(PairBatch {
            sources: side(0, source_length),
            targets: side(1, target_length),
            partners: partners.into(),
            config: self.rows.config,
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let lengths = self.rows.lengths.iter().map(|pair| u64::from(pair.source) + u64::from(pair.target));
        let padded = self.sizes(rounding).map(|[rows, source, target]| (rows * (source + target)) as u64);
        PaddingStats { tokens: lengths.sum(), padded: padded.sum() }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        let tokens = |[rows, source, target]: &[usize; 3]| rows * (source + target);
        self.sizes(rounding).max_by_key(tokens).unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
