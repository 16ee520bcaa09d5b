//! Plain text as documents of ids, cut into rows, and the batches of every epoch.
//!
//! A document has a start token of its own, and rows do not cross its borders. A row predicts `length` tokens; the `overlap`
//! tokens before them are context whose loss is counted in the row before. Every epoch cuts documents at other places.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyhead_engine::generate::TextUnits;
use polyhead_models::{Ids, LanguageModel};
use polyhead_random::Random;
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use rayon::prelude::*;

use super::documents::{Documents, Part};
use super::tokens::{self, TokenIds, TokenWriter};

use crate::config::TextRows;
use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Random stream of the places at which epochs are cut.
const ROWS_STREAM: u64 = 0x52_4F_57_53;
/// Bytes of text that are encoded together.
const TOGETHER: usize = 4 << 20;
/// The expected id of a position that is not counted; no vocabulary is as large.
pub(crate) const NOT_COUNTED: u32 = u32::MAX;

/// The division of a text into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) rows: TextRows,
    /// Tokens that a row predicts.
    pub(crate) length: usize,
    /// Tokens of context before them.
    pub(crate) overlap: usize,
}

/// A text as ids, in rows.
#[derive(Debug)]
pub(crate) struct PackedText {
    text: Arc<Text>,
    /// Rows of epoch 0.
    n_rows: usize,
    skipped: SkippedRows,
    pub(crate) size: TextSize,
}

/// The size of a text, by which its loss is expressed per character or byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextSize {
    /// Predicted tokens, line ends included.
    pub(crate) tokens: usize,
    /// Tokens that are `<unk>`.
    pub(crate) unknown: usize,
    pub(crate) lines: usize,
    /// Characters, line breaks included.
    pub(crate) characters: usize,
    /// Bytes in UTF-8, line breaks included.
    pub(crate) bytes: usize,
    /// True if not all of it is white space.
    pub(crate) has_text: bool,
}

#[derive(Debug)]
struct Text {
    /// Documents, each after its start token.
    ids: TokenIds,
    /// Start and end of each document in `ids`; what follows the start is predicted.
    documents: Vec<[usize; 2]>,
    packing: Packing,
    /// Without weights: it lays out its input.
    model: LanguageModel,
}

/// Positions of a text that a row reads; it predicts the position after each, except after the first `context`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) start: usize,
    pub(crate) end: usize,
    context: usize,
}

impl PackedText {
    /// Reads and encodes corpora for a model; many tokens are kept in a file in `folder`.
    pub(crate) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        model: &LanguageModel,
        packing: Packing,
        folder: &Path,
    ) -> Result<Self> {
        let mut reader = Reader {
            vocabulary,
            end_id: model.special_ids().end_id,
            start_id: vocabulary.start_id().unwrap_or(model.special_ids().start_id),
            waiting: Vec::new(),
            waiting_bytes: 0,
            ids: TokenWriter::new(folder, tokens::LIMIT),
            documents: Vec::new(),
            open: None,
            size: TextSize::default(),
        };
        let documents = Documents { rows: packing.rows, units: vocabulary.units() };
        documents.read(corpora, &mut |part| reader.take(part))?;
        reader.encode()?;
        let Reader { ids, documents, mut size, .. } = reader;
        let (ids, has_text) = (ids.finish()?, size.has_text);
        size.tokens = documents.iter().map(|[start, end]| end - start).sum();
        if !has_text {
            return Err(Error::config(
                RunCorpus::names(corpora),
                "no text, expected lines of text",
                "name a text file: train = { text = \"FILE\" }",
            ));
        }
        let text = Text { ids, documents, packing, model: model.clone() };
        let n_rows = text.rows(0).len();
        Ok(Self { text: Arc::new(text), n_rows, skipped: SkippedRows::default(), size })
    }
}

/// Encodes the parts of a text.
struct Reader<'a> {
    vocabulary: &'a Vocabulary,
    start_id: u32,
    end_id: u32,
    /// Parts that are encoded together, on all threads.
    waiting: Vec<Part>,
    waiting_bytes: usize,
    ids: TokenWriter,
    documents: Vec<[usize; 2]>,
    /// Start of the document that is being read.
    open: Option<usize>,
    size: TextSize,
}

impl Reader<'_> {
    fn take(&mut self, part: Part) -> Result<()> {
        if let Part::Text(text) = &part {
            self.waiting_bytes += text.len() + 1;
        }
        self.waiting.push(part);
        if self.waiting_bytes > TOGETHER { self.encode() } else { Ok(()) }
    }

    /// Encodes what waits.
    fn encode(&mut self) -> Result<()> {
        let tokenizer = self.vocabulary.source();
        let encoded = self.waiting.par_iter().map(|part| match part {
            Part::Text(text) => Ok(tokenizer.encode(text)?.ids),
            Part::End => Ok(Vec::new()),
        });
        let encoded: Vec<Vec<u32>> = encoded.collect::<Result<_>>()?;
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let (has_lines, unknown) = (self.vocabulary.units() == TextUnits::Lines, tokenizer.unknown_id());
        for (part, mut ids) in waiting.into_iter().zip(encoded) {
            match part {
                Part::Text(text) => {
                    let breaks = usize::from(has_lines);
                    let size = &mut self.size;
                    size.has_text |= !text.trim().is_empty();
                    size.unknown += ids.iter().filter(|id| Some(**id) == unknown).count();
                    size.lines += breaks.max(text.lines().count());
                    size.characters += text.chars().count() + breaks;
                    size.bytes += text.len() + breaks;
                    if has_lines {
                        ids.push(self.end_id);
                    }
                    if self.open.is_none() {
                        self.open = Some(self.ids.len());
                        self.ids.extend(&[self.start_id])?;
                    }
                    self.ids.extend(&ids)?;
                }
                Part::End => {
                    let Some(start) = self.open.take() else { continue };
                    if !has_lines {
                        self.ids.extend(&[self.end_id])?;
                    }
                    self.documents.push([start, self.ids.len() - 1]);
                }
            }
        }
        Ok(())
    }
}

impl Packing {
    /// Cuts the text that predicts the positions after `start` up to `end` into rows, of which the first is shorter by `shift`.
    pub(crate) fn cut(self, [start, end]: [usize; 2], shift: usize, rows: &mut Vec<Row>) {
        let shift = if end - start > self.length { shift } else { 0 };
        let (mut first, mut next) = (start, start + self.length - shift);
        while first < end {
            let begin = first.saturating_sub(self.overlap).max(start);
            rows.push(Row { start: begin, end: next.min(end), context: first - begin });
            (first, next) = (next, next + self.length);
        }
    }
}

impl Text {
    /// All rows, if the first of every document is shorter by `shift`.
    fn rows(&self, shift: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for &document in &self.documents {
            self.packing.cut(document, shift, &mut rows);
        }
        rows
    }

    /// The input of a row.
    fn input(&self, Row { start, end, .. }: Row) -> Cow<'_, [u32]> {
        self.ids.range(start..end)
    }

    /// The tokens that a row predicts.
    fn expected(&self, Row { start, end, context }: Row) -> Cow<'_, [u32]> {
        self.ids.range(start + context + 1..end + 1)
    }
}

impl objective::Dataset for PackedText {
    type Batch = PackedBatch;
    type Epoch = PackedEpoch;

    fn len(&self) -> usize {
        self.n_rows
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

    fn bytes(&self) -> usize {
        self.text.ids.bytes()
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<PackedEpoch> {
        let length = self.text.packing.length;
        // Each epoch cuts the text elsewhere; otherwise the same tokens would begin the rows, with no context, every time.
        let shift =
            if number == 0 { 0 } else { Random::new(options.seed).stream(ROWS_STREAM).below(length, number) };
        let rows = self.text.rows(shift);
        let length = |row: &Row| (row.end - row.start) as u32;
        let lengths: Vec<PairLengths> =
            rows.iter().map(|row| PairLengths { source: length(row), target: length(row) }).collect();
        let plan = Epoch::plan(&lengths, options, number)?;
        Ok(PackedEpoch { text: Arc::clone(&self.text), rows, plan })
    }
}

/// A batch of rows of text.
#[derive(Debug, Clone)]
pub(crate) struct PackedBatch {
    pub(crate) ids: Ids,
    /// The next token of every position; [`NOT_COUNTED`] where none is.
    pub(crate) expected: Indices,
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
    text: Arc<Text>,
    rows: Vec<Row>,
    plan: Epoch,
}

impl PackedEpoch {
    fn length(&self, row: u32) -> usize {
        let Row { start, end, .. } = self.rows[row as usize];
        end - start
    }

    /// `[rows, length]` of a batch.
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 2] {
        let longest = batch.iter().map(|&row| self.length(row)).max().unwrap_or(0);
        [rounding.rows(batch.len()), rounding.length(longest).max(1)]
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
        let rows: Vec<Row> = batch.iter().map(|&row| self.rows[row as usize]).collect();
        let inputs: Vec<Cow<'_, [u32]>> = rows.iter().map(|&row| self.text.input(row)).collect();
        let inputs = inputs.iter().map(|row| Some(row.as_ref()));
        let inputs: Vec<Option<&[u32]>> = inputs.chain(std::iter::repeat(None)).take(n_rows).collect();
        let mut expected = vec![NOT_COUNTED; n_rows * length];
        let mut count = 0;
        for (&row, out) in rows.iter().zip(expected.chunks_exact_mut(length)) {
            let tokens = self.text.expected(row);
            out[row.context..][..tokens.len()].copy_from_slice(&tokens);
            count += tokens.len();
        }
        let all = (0..copies).flat_map(|_| inputs.iter().copied());
        let ids = self.text.model.ids(all, length);
        Some(PackedBatch {
            ids,
            expected: expected.repeat(copies).into(),
            sizes: [n_rows * copies, length],
            count,
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        PaddingStats {
            tokens: self.rows.iter().map(|row| (row.end - row.start) as u64).sum(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_predicted_once_wherever_a_text_is_cut() {
        for (length, overlap) in [(4, 0), (4, 3), (1, 0), (100, 0)] {
            let packing = Packing { rows: TextRows::Packed, length, overlap };
            for shift in 0..length.min(6) {
                let mut rows = Vec::new();
                for document in [[0, 10], [11, 12], [13, 13 + length], [200, 330]] {
                    packing.cut(document, shift, &mut rows);
                }
                let predicted: Vec<usize> =
                    rows.iter().flat_map(|row| row.start + row.context..row.end).collect();
                let expected: Vec<usize> =
                    (0..10).chain(11..12).chain(13..13 + length).chain(200..330).collect();
                assert_eq!(predicted, expected, "{length} {overlap} {shift}");
                assert!(
                    rows.iter().all(|row| row.context <= overlap && row.end - row.start <= length + overlap)
                );
                // A document that fits into one row stays whole.
                assert!(rows.contains(&Row { start: 13, end: 13 + length, context: 0 }), "{rows:?}");
            }
        }
        let cut = |shift| {
            let mut rows = Vec::new();
            Packing { rows: TextRows::Packed, length: 4, overlap: 2 }.cut([0, 10], shift, &mut rows);
            rows.iter().map(|row| (row.start, row.end, row.context)).collect::<Vec<_>>()
        };
        assert_eq!(cut(0), [(0, 4, 0), (2, 8, 2), (6, 10, 2)]);
        assert_eq!(cut(3), [(0, 1, 0), (0, 5, 1), (3, 9, 2), (7, 10, 2)]);
    }
}
