//! Rows of points with their orders, and the batches of every epoch.

use std::collections::HashSet;
use std::sync::Arc;

use polyhead_engine::point::{PointRow, Rows};
use polyhead_models::PointerNetwork;
use polyhead_models::pointer::{AnswerRule, Orders, PointSpec, Points};
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};

use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::{Error, Result};

/// A row with its corpus and line.
#[derive(Debug, Clone)]
pub(super) struct PlacedRow {
    row: PointRow,
    corpus: usize,
    line: u64,
}

/// Reads corpora. All points have `d_point` coordinates, or as many as those of the first row.
pub(super) fn read(corpora: &[RunCorpus], d_point: Option<usize>) -> Result<Vec<PlacedRow>> {
    let (mut all, mut width) = (Vec::new(), d_point);
    for (number, run_corpus) in corpora.iter().enumerate() {
        let path = run_corpus.corpus.source_path();
        let first = all.len();
        let mut rows = Rows::open(path)?;
        while let Some(row) = rows.next_row()? {
            let line = rows.line();
            let place = || format!("{}:{line}", path.display());
            let expected = *width.get_or_insert(row.d_point);
            if row.d_point != expected {
                let message = format!("points of {} coordinates, expected {expected}", row.d_point);
                return Err(Error::data(place(), message, "all rows of a run have the same kind of points"));
            }
            if row.order.is_none() {
                let hint = "every row of the training and validation data needs its answer";
                return Err(Error::data(place(), "no order, expected the indices of the answer", hint));
            }
            all.push(PlacedRow { row, corpus: number, line });
        }
        let own = all[first..].to_vec();
        all.extend((1..run_corpus.repeat).flat_map(|_| own.clone()));
    }
    if all.is_empty() {
        let hint = "a line is, for instance: {\"numbers\": [3, 1, 2], \"order\": [1, 2, 0]}";
        return Err(Error::config(RunCorpus::names(corpora), "no rows, expected JSON lines", hint));
    }
    Ok(all)
}

/// What the training data determine of a model: mean and standard deviation of each coordinate, and the rule of answers.
pub(super) fn spec(rows: &[PlacedRow]) -> PointSpec {
    let d_point = rows.first().map_or(1, |placed| placed.row.d_point);
    let (mut sums, mut squares, mut count) = (vec![0.0; d_point], vec![0.0; d_point], 0.0);
    for placed in rows {
        for point in placed.row.coordinates.chunks_exact(d_point) {
            count += 1.0;
            for (axis, &number) in point.iter().enumerate() {
                sums[axis] += f64::from(number);
                squares[axis] += f64::from(number).powi(2);
            }
        }
    }
    let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let scale = squares.iter().zip(&means).map(|(square, mean)| {
        let deviation = (square / count - mean * mean).max(0.0).sqrt();
        if deviation > 0.0 { deviation as f32 } else { 1.0 }
    });
    let order = |placed: &PlacedRow| placed.row.order.clone().unwrap_or_default();
    let orders: Vec<(Vec<u32>, usize)> =
        rows.iter().map(|placed| (order(placed), placed.row.len())).collect();
    PointSpec {
        offset: means.iter().map(|&mean| mean as f32).collect(),
        scale: scale.collect(),
        answer: AnswerRule::of(&orders.iter().map(|(order, count)| (order.as_slice(), *count))),
        shortest: orders.iter().map(|(order, _)| order.len()).min().unwrap_or(1),
    }
}

/// Rows of points with their orders.
#[derive(Debug)]
pub(crate) struct PointRows {
    rows: Arc<PointTable>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct PointTable {
    rows: Vec<PointRow>,
    lengths: Vec<PairLengths>,
    /// Without weights: it lays out its input.
    layout: PointerNetwork,
}

impl PointRows {
    /// Rows whose points and answer have at most `longest` entries.
    pub(super) fn new(
        rows: Vec<PlacedRow>,
        layout: &PointerNetwork,
        longest: usize,
        corpora: &[RunCorpus],
    ) -> Result<Self> {
        let mut skipped = SkippedRows::default();
        let (mut kept, mut lengths) = (Vec::new(), Vec::new());
        for PlacedRow { row, corpus, line } in rows {
            let steps = row.order.as_ref().map_or(0, Vec::len) + 1;
            if row.len().max(steps) > longest {
                skipped.too_long += 1;
                skipped.first_too_long.get_or_insert((corpus, line, row.len().max(steps)));
            } else {
                lengths.push(PairLengths { source: row.len() as u32, target: steps as u32 });
                kept.push(row);
            }
        }
        if kept.is_empty() {
            let message = format!("no usable row ({} too long)", skipped.too_long);
            let hint = "raise data.max_length, model.max_len or train.max_tokens";
            return Err(Error::config(RunCorpus::names(corpora), message, hint));
        }
        Ok(Self { rows: Arc::new(PointTable { rows: kept, lengths, layout: layout.clone() }), skipped })
    }

    /// The rows used.
    pub(super) fn rows(&self) -> &[PointRow] {
        &self.rows.rows
    }
}

impl objective::Dataset for PointRows {
    type Batch = PointBatch;
    type Epoch = PointEpoch;

    fn len(&self) -> usize {
        self.rows.rows.len()
    }

    /// Number of points, and of steps of all answers.
    fn tokens(&self) -> [usize; 2] {
        let sum =
            |side: fn(&PairLengths) -> u32| self.rows.lengths.iter().map(|row| side(row) as usize).sum();
        [sum(|row| row.source), sum(|row| row.target)]
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<PointEpoch> {
        let plan = Epoch::plan(&self.rows.lengths, options, number)?;
        Ok(PointEpoch { rows: Arc::clone(&self.rows), plan })
    }
}

/// A batch of points with their orders.
#[derive(Debug, Clone)]
pub(crate) struct PointBatch {
    pub(super) points: Points,
    pub(super) orders: Orders,
    /// Steps of all answers.
    steps: usize,
}

impl objective::Batch for PointBatch {
    fn weight(&self) -> usize {
        self.steps
    }

    fn lists(&self) -> Vec<&Indices> {
        self.points.lists().into_iter().chain(self.orders.lists()).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [coordinates, mask, lengths, shared, inputs, targets, rows] =
            <[Indices; 7]>::try_from(lists.to_vec()).expect("a batch has seven lists");
        Self {
            points: self.points.with([coordinates, mask, lengths, shared]),
            orders: self.orders.with([inputs, targets, rows]),
            steps: self.steps,
        }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.points.rows(), self.points.length(), self.orders.length()]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct PointEpoch {
    rows: Arc<PointTable>,
    plan: Epoch,
}

impl PointEpoch {
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 3] {
        let longest = |side: fn(&PairLengths) -> u32| {
            let lengths = batch.iter().map(|&row| side(&self.rows.lengths[row as usize]) as usize);
            rounding.length(lengths.max().unwrap_or(0)).max(1)
        };
        [rounding.rows(batch.len()), longest(|row| row.source), longest(|row| row.target)]
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }
}

impl EpochBatches for PointEpoch {
    type Batch = PointBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<PointBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, points, steps] = self.size(batch, rounding);
        let rows = batch.iter().map(|&row| Some(&self.rows.rows[row as usize]));
        let once: Vec<Option<&PointRow>> = rows.chain(std::iter::repeat(None)).take(n_rows).collect();
        let rows = once.repeat(copies);
        let orders: Vec<Option<&[u32]>> =
            rows.iter().map(|row| row.map(|row| row.order.as_deref().unwrap_or_default())).collect();
        let coordinates = rows.iter().map(|row| row.map(|row| row.coordinates.as_slice()));
        Some(PointBatch {
            points: self.rows.layout.points(coordinates, points),
            orders: Orders::new(&orders, points, steps),
            steps: batch.iter().map(|&row| self.rows.lengths[row as usize].target as usize).sum(),
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded = self.sizes(rounding).map(|[rows, points, steps]| (rows * (points + steps)) as u64).sum();
        let tokens = self.rows.lengths.iter().map(|row| u64::from(row.source + row.target)).sum();
        PaddingStats { tokens, padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        self.sizes(rounding).max_by_key(|[rows, points, steps]| rows * points * steps).unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
