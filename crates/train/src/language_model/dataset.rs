//! Plain text as one sequence of ids, cut into rows, and the batches of every epoch.
//!
//! Every line is ended by the end token, which stands for the line break. Packed, the lines of all corpora follow each other after
//! one start token; otherwise each line has a start token of its own. A row predicts `length` tokens; the `overlap` tokens
//! before them are context whose loss is counted in the row before.

use std::collections::HashSet;
use std::sync::Arc;

use polyhead_models::{Ids, LanguageModel};
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};

use crate::config::TextRows;
use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The division of a text into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packing {
    pub(super) rows: TextRows,
    /// Tokens that a row predicts.
    pub(super) length: usize,
    /// Tokens of context before them.
    pub(super) overlap: usize,
}

/// A text as ids, in rows.
#[derive(Debug)]
pub(crate) struct PackedText {
    rows: Arc<Rows>,
    skipped: SkippedRows,
    pub(super) size: TextSize,
}

/// The size of a text, by which its loss is expressed per character or byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextSize {
    /// Predicted tokens, line ends included.
    pub(super) tokens: usize,
    /// Tokens that are `<unk>`.
    pub(super) unknown: usize,
    pub(super) lines: usize,
    /// Characters, line breaks included.
    pub(super) characters: usize,
    /// Bytes in UTF-8, line breaks included.
    pub(super) bytes: usize,
}

#[derive(Debug)]
struct Rows {
    /// Start tokens and text.
    ids: Vec<u32>,
    rows: Vec<Row>,
    lengths: Vec<PairLengths>,
    /// Without weights: it lays out its input.
    model: LanguageModel,
}

/// Positions of `ids` that a row reads; it predicts the position after each, except after the first `context`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    start: usize,
    end: usize,
    context: usize,
}

impl PackedText {
    /// Reads and encodes corpora for a model.
    pub(super) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        model: &LanguageModel,
        packing: Packing,
    ) -> Result<Self> {
        let tokenizer = vocabulary.source();
        let (special, unknown) = (model.special_ids(), tokenizer.unknown_id());
        let (mut ids, mut rows, mut size) = (vec![special.start_id], Vec::new(), TextSize::default());
        for run_corpus in corpora {
            for _ in 0..run_corpus.repeat {
                let mut lines = run_corpus.corpus.pairs()?;
                while let Some(line) = lines.next_pair()? {
                    let encoded = tokenizer.encode(line.source)?.ids;
                    size.unknown += encoded.iter().filter(|id| Some(**id) == unknown).count();
                    size.lines += 1;
                    size.characters += line.source.chars().count() + 1;
                    size.bytes += line.source.len() + 1;
                    let start = ids.len() - 1;
                    ids.extend(encoded);
                    ids.push(special.end_id);
                    if packing.rows == TextRows::Lines {
                        packing.cut(start, ids.len() - 1, &mut rows);
                        ids.push(special.start_id);
                    }
                }
            }
        }
        if packing.rows == TextRows::Packed {
            packing.cut(0, ids.len() - 1, &mut rows);
        }
        size.tokens = rows.iter().map(|row| row.end - row.start - row.context).sum();
        if size.tokens == size.lines {
            return Err(Error::config(
                RunCorpus::names(corpora),
                "no text, expected lines of text",
                "name a text file: train = { text = \"FILE\" }",
            ));
        }
        let length = |row: &Row| (row.end - row.start) as u32;
        let lengths =
            rows.iter().map(|row| PairLengths { source: length(row), target: length(row) }).collect();
        let rows = Rows { ids, rows, lengths, model: model.clone() };
        Ok(Self { rows: Arc::new(rows), skipped: SkippedRows::default(), size })
    }
}

impl Packing {
    /// Cuts the text that predicts the positions after `start` up to `end` into rows.
    fn cut(self, start: usize, end: usize, rows: &mut Vec<Row>) {
        for first in (start..end).step_by(self.length) {
            let begin = first.saturating_sub(self.overlap).max(start);
            rows.push(Row { start: begin, end: (first + self.length).min(end), context: first - begin });
        }
    }
}

impl Rows {
    /// The input of a row.
    fn input(&self, row: usize) -> &[u32] {
        let Row { start, end, .. } = self.rows[row];
        &self.ids[start..end]
    }

    /// The tokens after each position of the input, and how many of them are context.
    fn expected(&self, row: usize) -> (&[u32], usize) {
        let Row { start, end, context } = self.rows[row];
        (&self.ids[start + 1..=end], context)
    }
}

impl objective::Dataset for PackedText {
    type Batch = PackedBatch;
    type Epoch = PackedEpoch;

    fn len(&self) -> usize {
        self.rows.lengths.len()
    }

    /// Number of tokens, all of which are predicted.
    fn tokens(&self) -> [usize; 2] {
        [self.size.tokens; 2]
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<PackedEpoch> {
        let plan = Epoch::plan(&self.rows.lengths, options, number)?;
        Ok(PackedEpoch { rows: Arc::clone(&self.rows), plan })
    }
}

/// A batch of rows of text.
#[derive(Debug, Clone)]
pub(crate) struct PackedBatch {
    pub(super) ids: Ids,
    /// The next token of every position; padding where none is counted.
    pub(super) expected: Indices,
    /// Rows and length.
    sizes: [usize; 2],
    /// Tokens counted.
    count: usize,
}

impl objective::Batch for PackedBatch {
    fn weight(&self) -> usize {
        self.count
    }

    fn lists(&self) -> Vec<&Indices> {
        vec![self.ids.ids(), self.ids.lengths(), &self.expected]
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [ids, lengths, expected] =
            <[Indices; 3]>::try_from(lists.to_vec()).expect("a batch has three lists");
        Self { ids: self.ids.with(ids, lengths), expected, ..*self }
    }

    fn sizes(&self) -> [usize; 3] {
        let [rows, length] = self.sizes;
        [rows, length, length]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct PackedEpoch {
    rows: Arc<Rows>,
    plan: Epoch,
}

impl PackedEpoch {
    /// `[rows, length]` of a batch.
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 2] {
        let longest = batch.iter().map(|&row| self.rows.lengths[row as usize].source).max().unwrap_or(0);
        [rounding.rows(batch.len()), rounding.length(longest as usize).max(1)]
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 2]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }
}

impl EpochBatches for PackedEpoch {
    type Batch = PackedBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<PackedBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, length] = self.size(batch, rounding);
        let pad_id = self.rows.model.special_ids().pad_id;
        let inputs = batch.iter().map(|&row| Some(self.rows.input(row as usize)));
        let inputs: Vec<Option<&[u32]>> = inputs.chain(std::iter::repeat(None)).take(n_rows).collect();
        let mut expected = vec![pad_id; n_rows * length];
        let mut count = 0;
        for (&row, out) in batch.iter().zip(expected.chunks_exact_mut(length)) {
            let (tokens, context) = self.rows.expected(row as usize);
            out[context..tokens.len()].copy_from_slice(&tokens[context..]);
            count += tokens.len() - context;
        }
        let all = (0..copies).flat_map(|_| inputs.iter().copied());
        let ids = self.rows.model.ids(all, length);
        Some(PackedBatch {
            ids,
            expected: expected.repeat(copies).into(),
            sizes: [n_rows * copies, length],
            count,
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let tokens = self.rows.lengths.iter().map(|row| u64::from(row.source)).sum();
        PaddingStats {
            tokens,
            padded: self.sizes(rounding).map(|[rows, length]| (rows * length) as u64).sum(),
        }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        let largest = self.sizes(rounding).max_by_key(|[rows, length]| rows * length).unwrap_or([0; 2]);
        [largest[0], largest[1], largest[1]]
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
