//! Plain text as rows of ids, some of which are hidden, and the batches of every epoch.
//!
//! A row is `[CLS] text [SEP]`. Every epoch cuts the text at other places and hides other tokens. A row of a length has a fixed
//! number of predicted positions, so that a GPU can record a step for each shape; those that it does not need are not counted.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyhead_engine::generate::TextUnits;
use polyhead_models::{Encoder, Ids};
use polyhead_random::Random;
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use polyhead_text::tokenizer::Tokenizer;
use rayon::prelude::*;

use super::NOT_COUNTED;
use super::masking::{Hidden, Masking, RowRandom};
use crate::event::SkippedRows;
use crate::language_model::dataset::{Packing, Row};
use crate::language_model::documents::{Documents, Part};
use crate::language_model::tokens::{self, TokenIds, TokenWriter};
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Random stream of the places at which epochs are cut.
const ROWS_STREAM: u64 = 0x4D_52_4F_57;
/// Bytes of text that are encoded together.
const TOGETHER: usize = 4 << 20;

/// The rows of a text.
#[derive(Debug, Clone)]
pub(super) struct RowFormat {
    /// The division of the text.
    pub(super) packing: Packing,
    /// The tokens before and after the text of a row.
    pub(super) frame: [u32; 2],
    /// The choice of hidden tokens.
    pub(super) masking: Masking,
    /// Without weights: it lays out its input.
    pub(super) model: Encoder,
}

/// A text as ids, in rows.
#[derive(Debug)]
pub(crate) struct MaskedText {
    text: Arc<Text>,
    /// Rows of epoch 0.
    n_rows: usize,
    /// Tokens of the text, and those of them that are hidden in epoch 0.
    n_tokens: [usize; 2],
    skipped: SkippedRows,
}

#[derive(Debug)]
struct Text {
    ids: TokenIds,
    /// Start and end of each document in `ids`.
    documents: Vec<[usize; 2]>,
    format: RowFormat,
}

impl MaskedText {
    /// Reads and encodes corpora; many tokens are kept in a file in `folder`.
    pub(super) fn read(
        corpora: &[RunCorpus],
        vocabulary: &Vocabulary,
        format: &RowFormat,
        folder: &Path,
    ) -> Result<Self> {
        let mut reader = Reader {
            tokenizer: vocabulary.source(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            ids: TokenWriter::new(folder, tokens::LIMIT),
            documents: Vec::new(),
            start: 0,
        };
        let documents = Documents { rows: format.packing.rows, units: TextUnits::Lines };
        documents.read(corpora, &mut |part| reader.take(part))?;
        reader.encode()?;
        let Reader { ids, documents, .. } = reader;
        let text = Text { ids: ids.finish()?, documents, format: format.clone() };
        let rows = text.rows(0);
        if rows.is_empty() {
            return Err(Error::config(
                RunCorpus::names(corpora),
                "no text, expected lines of text",
                "name a text file: train = { text = \"FILE\" }",
            ));
        }
        let hidden = rows.iter().map(|row| format.masking.count(row.end - row.start)).sum();
        let n_tokens = [rows.iter().map(|row| row.end - row.start).sum(), hidden];
        let (text, skipped) = (Arc::new(text), SkippedRows::default());
        Ok(Self { text, n_rows: rows.len(), n_tokens, skipped })
    }
}

/// Encodes the parts of a text.
struct Reader<'a> {
    tokenizer: &'a Tokenizer,
    /// Parts that are encoded together, on all threads.
    waiting: Vec<Part>,
    waiting_bytes: usize,
    ids: TokenWriter,
    documents: Vec<[usize; 2]>,
    /// Start of the document that is being read.
    start: usize,
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
        let tokenizer = self.tokenizer;
        let encoded = self.waiting.par_iter().map(|part| match part {
            Part::Text(text) => Ok(Some(tokenizer.encode(text)?.ids)),
            Part::End => Ok(None),
        });
        let encoded: Vec<Option<Vec<u32>>> = encoded.collect::<Result<_>>()?;
        self.waiting.clear();
        self.waiting_bytes = 0;
        for part in encoded {
            if let Some(ids) = part {
                self.ids.extend(&ids)?;
            } else {
                let end = self.ids.len();
                if end > self.start {
                    self.documents.push([self.start, end]);
                }
                self.start = end;
            }
        }
        Ok(())
    }
}

impl Text {
    /// All rows, if the first of every document is shorter by `shift`.
    fn rows(&self, shift: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for &document in &self.documents {
            self.format.packing.cut(document, shift, &mut rows);
        }
        rows
    }

    fn tokens(&self, row: &Row) -> Cow<'_, [u32]> {
        self.ids.range(row.start..row.end)
    }
}

impl objective::Dataset for MaskedText {
    type Batch = MaskedBatch;
    type Epoch = MaskedEpoch;

    fn len(&self) -> usize {
        self.n_rows
    }

    /// Number of tokens, and of hidden ones.
    fn tokens(&self) -> [usize; 2] {
        self.n_tokens
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

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<MaskedEpoch> {
        let RowFormat { packing, frame, .. } = &self.text.format;
        let random = Random::new(options.seed).stream(ROWS_STREAM);
        let shift = if number == 0 { 0 } else { random.below(packing.length, number) };
        let rows = self.text.rows(shift);
        let length = |row: &Row| (row.end - row.start + frame.len()) as u32;
        let lengths: Vec<PairLengths> =
            rows.iter().map(|row| PairLengths { source: length(row), target: length(row) }).collect();
        let plan = Epoch::plan(&lengths, options, number)?;
        Ok(MaskedEpoch { text: Arc::clone(&self.text), rows, plan, seed: options.seed, number })
    }
}

/// A batch of rows of text with hidden tokens.
#[derive(Debug, Clone)]
pub(crate) struct MaskedBatch {
    pub(crate) ids: Ids,
    /// Predicted positions, as indices into rows × length.
    pub(crate) positions: Indices,
    /// The id at each of them; [`NOT_COUNTED`] where a row has fewer hidden tokens.
    pub(crate) words: Indices,
    /// Tokens counted.
    pub(crate) count: usize,
}

impl objective::Batch for MaskedBatch {
    fn weight(&self) -> usize {
        self.count
    }

    fn lists(&self) -> Vec<&Indices> {
        vec![self.ids.ids(), self.ids.lengths(), &self.positions, &self.words]
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [ids, lengths, positions, words] =
            <[Indices; 4]>::try_from(lists.to_vec()).expect("a batch has four lists");
        Self { ids: self.ids.with(ids, lengths), positions, words, count: self.count }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.ids.rows(), self.ids.length(), self.positions.len()]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct MaskedEpoch {
    text: Arc<Text>,
    rows: Vec<Row>,
    plan: Epoch,
    seed: u64,
    number: u64,
}

impl MaskedEpoch {
    /// `[rows, length]` of a batch.
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 2] {
        let longest = batch.iter().map(|&row| self.length(row)).max().unwrap_or(0);
        [rounding.rows(batch.len()), rounding.length(longest)]
    }

    /// Tokens of a row, with those around the text.
    fn length(&self, row: u32) -> usize {
        let Row { start, end, .. } = self.rows[row as usize];
        end - start + self.text.format.frame.len()
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 2]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }

    /// Predicted positions of a row of a length.
    fn n_predicted(&self, length: usize) -> usize {
        let RowFormat { frame, masking, .. } = &self.text.format;
        masking.count(length - frame.len())
    }
}

impl EpochBatches for MaskedEpoch {
    type Batch = MaskedBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<MaskedBatch> {
        debug_assert_eq!(copies, 1, "R-Drop is refused");
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, length] = self.size(batch, rounding);
        let n_predicted = self.n_predicted(length);
        let RowFormat { frame: [before, after], masking, model, .. } = &self.text.format;
        let mut positions: Vec<u32> =
            (0..n_rows).flat_map(|row| vec![(row * length) as u32; n_predicted]).collect();
        let mut words = vec![NOT_COUNTED; n_rows * n_predicted];
        let input = |&row: &u32| {
            let tokens = self.text.tokens(&self.rows[row as usize]);
            let hidden = masking.hidden(&tokens, RowRandom::new(self.seed, self.number, row));
            let mut input = Vec::with_capacity(tokens.len() + 2);
            input.push(*before);
            input.extend_from_slice(&tokens);
            input.push(*after);
            for hidden in &hidden {
                input[hidden.position + 1] = hidden.shown;
            }
            (input, hidden)
        };
        let inputs: Vec<(Vec<u32>, Vec<Hidden>)> = batch.par_iter().with_min_len(16).map(input).collect();
        let mut count = 0;
        for (index, (_, hidden)) in inputs.iter().enumerate() {
            for (place, hidden) in (index * n_predicted..).zip(hidden) {
                positions[place] = (index * length + hidden.position + 1) as u32;
                words[place] = hidden.word;
            }
            count += hidden.len();
        }
        let rows = inputs.iter().map(|(row, _)| Some(row.as_slice()));
        let rows = rows.chain(std::iter::repeat(None)).take(n_rows);
        let ids = model.padded(rows, length);
        Some(MaskedBatch { ids, positions: positions.into(), words: words.into(), count })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        PaddingStats {
            tokens: (0..self.rows.len() as u32).map(|row| self.length(row) as u64).sum(),
            padded: self.sizes(rounding).map(|[rows, length]| (rows * length) as u64).sum(),
        }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        let largest = self.sizes(rounding).max_by_key(|[rows, length]| rows * length).unwrap_or([0; 2]);
        [largest[0], largest[1], 0]
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
