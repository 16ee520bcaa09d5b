//! Batches of pairs: read ahead by one thread while the others examine the batch before.

use std::ops::Range;

use rayon::prelude::*;

use super::examine::{Diagnosis, Duplicates, Examiner};
use super::problem::Problem;
use super::unreadable;
use crate::corpus::{Pairs, RawPair};
use crate::{Error, Result};

/// Most pairs of a batch.
const MAX_PAIRS: usize = 4096;
/// A batch ends with the pair that exceeds this size.
const MAX_BYTES: usize = 1 << 20;
/// Fewest pairs that a thread takes at once.
const MIN_TASK: usize = 64;

/// Calls `found` with every pair of `pairs` and its diagnosis, in order, and `progress` with the number of lines so far
/// after each batch. Examines pairs on all threads; memory is that of two batches.
pub(super) fn each_pair(
    pairs: &mut Pairs,
    examiner: &Examiner,
    progress: &mut dyn FnMut(u64),
    mut found: impl FnMut(BatchedPair<'_>, Diagnosis) -> Result<()>,
) -> Result<()> {
    let mut duplicates = Duplicates::default();
    let [mut batch, mut next] = [PairBatch::default(), PairBatch::default()];
    batch.read(pairs, 1);
    while !batch.rows.is_empty() {
        let next_line = batch.first_line + batch.rows.len() as u64;
        let ((), diagnoses) = rayon::join(|| next.read(pairs, next_line), || batch.examine(examiner));
        for (index, mut diagnosis) in diagnoses.into_iter().enumerate() {
            let line = batch.get(index);
            if examiner.wants_duplicates() {
                duplicates.find(line.pair.line, &mut diagnosis);
            }
            found(line, diagnosis)?;
        }
        progress(next_line - 1);
        batch.failure.take().map_or(Ok(()), Err)?;
        std::mem::swap(&mut batch, &mut next);
    }
    batch.failure.map_or(Ok(()), Err)
}

/// Copies of some pairs in a row.
#[derive(Debug, Default)]
struct PairBatch {
    /// The texts of all rows.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Line number of the first row, from 1.
    first_line: u64,
    /// Failure to read on, after these pairs.
    failure: Option<Error>,
}

/// The places of one pair in the bytes of its batch.
#[derive(Debug)]
struct Row {
    /// Line number, from 1.
    line: u64,
    /// The line of a TSV or JSONL file; empty for line files.
    whole: Range<usize>,
    sides: [Option<Range<usize>>; 2],
    /// The problem of a line that is no pair.
    unreadable: Option<(Problem, String)>,
}

/// One line of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchedPair<'a> {
    pub(super) pair: RawPair<'a>,
    /// The line of a TSV or JSONL file with all columns and fields; empty for line files.
    pub(super) whole: &'a [u8],
    /// The problem of a line that is no pair.
    pub(super) unreadable: Option<&'a (Problem, String)>,
}

impl PairBatch {
    /// Replaces the batch by the next pairs; it is empty at the end.
    fn read(&mut self, pairs: &mut Pairs, first_line: u64) {
        self.bytes.clear();
        self.rows.clear();
        self.first_line = first_line;
        while self.rows.len() < MAX_PAIRS && self.bytes.len() < MAX_BYTES && self.failure.is_none() {
            let problem = match pairs.next_raw() {
                Ok(None) => return,
                Ok(Some(_)) => None,
                Err(error) => match unreadable(error) {
                    Ok(problem) => Some(problem),
                    Err(error) => {
                        self.failure = Some(error);
                        return;
                    }
                },
            };
            let whole = self.copy(pairs.whole_line());
            // A line that is no pair leaves the places of the line before.
            let RawPair { source, target, .. } = match problem {
                Some(_) => RawPair { line: 0, source: None, target: None },
                None => pairs.current(),
            };
            let sides = [source, target].map(|side| side.map(|bytes| self.copy(bytes)));
            self.rows.push(Row { line: pairs.line(), whole, sides, unreadable: problem });
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn examine(&self, examiner: &Examiner) -> Vec<Diagnosis> {
        let rows = (0..self.rows.len()).into_par_iter().with_min_len(MIN_TASK);
        rows.map(|index| examiner.examine(self.get(index))).collect()
    }

    fn get(&self, index: usize) -> BatchedPair<'_> {
        let row = &self.rows[index];
        let [source, target] = row.sides.clone().map(|side| side.map(|range| &self.bytes[range]));
        BatchedPair {
            pair: RawPair { line: row.line, source, target },
            whole: &self.bytes[row.whole.clone()],
            unreadable: row.unreadable.as_ref(),
        }
    }
}
