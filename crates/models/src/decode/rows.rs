//! Rows of several sentences, stepped together.
//!
//! Each sentence has its own search: it gets the scores of its rows and says which rows go on, with which token. Rows
//! of a sentence lie side by side, in the order it named them; sentences that are done leave the batch.

use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};
use rayon::prelude::*;

use super::NextToken;
use crate::Result;

/// What the model says about the next token of one sentence's rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scores<'a> {
    logits: &'a [f32],
    log_probabilities: &'a [f32],
    vocab_size: usize,
    attention: Option<&'a [f32]>,
    source_length: usize,
}

impl<'a> Scores<'a> {
    /// A row's logits.
    pub(super) fn logits(&self, row: usize) -> &'a [f32] {
        &self.logits[row * self.vocab_size..][..self.vocab_size]
    }

    /// A row's log-probabilities.
    pub(super) fn log_probabilities(&self, row: usize) -> &'a [f32] {
        &self.log_probabilities[row * self.vocab_size..][..self.vocab_size]
    }

    /// The weights of a row's source tokens, and padding after them, if the search wants them and the model has them.
    pub(super) fn attention(&self, row: usize) -> Option<&'a [f32]> {
        Some(&self.attention?[row * self.source_length..][..self.source_length])
    }
}

/// A row of the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// The row of this step that it goes on from, counted within the sentence.
    pub(super) parent: usize,
    /// Its newest token.
    pub(super) token: u32,
}

/// What one sentence does with its scores.
pub(super) trait Search: Send {
    /// The most rows that it may ask for at once.
    fn width(&self) -> usize;

    /// True if it reads [`Scores::attention`].
    fn wants_attention(&self) -> bool {
        false
    }

    /// True if there is nothing to choose, not even a first token.
    fn is_empty(&self) -> bool;

    /// Takes the scores of its rows (one at first); gives the rows of the next step, none when it is done.
    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>>;
}

/// Runs all searches to their ends; `sources[i]` belongs to `searches[i]`.
pub(super) fn run<M: NextToken, S: Search>(
    model: &M,
    sources: &[&[u32]],
    start_id: u32,
    searches: &mut [S],
) -> Result<()> {
    let (sources, mut going): (Vec<&[u32]>, Vec<Going<'_, S>>) = sources
        .iter()
        .zip(searches)
        .filter(|(_, search)| !search.is_empty())
        .map(|(&source, search)| (source, Going { search, next: vec![Next { parent: 0, token: start_id }] }))
        .unzip();
    if going.is_empty() {
        return Ok(());
    }
    let n_rows = going.iter().map(|sentence| sentence.search.width()).sum();
    let mut state = model.start(&sources, n_rows)?;
    while !going.is_empty() {
        let tokens: Vec<u32> =
            going.iter().flat_map(|sentence| &sentence.next).map(|row| row.token).collect();
        let said = if going.iter().any(|sentence| sentence.search.wants_attention()) {
            Said::new(model.step_attending(&mut state, &tokens)?, tokens.len())
        } else {
            Said::new((model.step(&mut state, &tokens)?, None), tokens.len())
        };
        let widths: Vec<usize> = going.iter().map(|sentence| sentence.next.len()).collect();
        let firsts = first_rows(&widths);
        going.par_iter_mut().zip(&firsts).zip(&widths).try_for_each(|((sentence, first), width)| {
            sentence.next = sentence.search.advance(&said.scores(*first, *width))?;
            Ok::<_, crate::Error>(())
        })?;
        let rows: Vec<usize> = going
            .iter()
            .zip(firsts)
            .flat_map(|(sentence, first)| sentence.next.iter().map(move |row| first + row.parent))
            .collect();
        going.retain(|sentence| !sentence.next.is_empty());
        if !going.is_empty() && !rows.iter().copied().eq(0..tokens.len()) {
            model.reorder(&mut state, &rows);
        }
    }
    Ok(())
}

/// What the model says about all rows.
struct Said {
    logits: Tensor,
    log_probabilities: Tensor,
    attention: Option<Tensor>,
    rows: usize,
}

impl Said {
    fn new((logits, attention): (Tensor, Option<Tensor>), rows: usize) -> Self {
        let log_probabilities =
            log_softmax(&Tape::inference(), &Var::constant(logits.clone())).value().clone();
        Self { logits, log_probabilities, attention, rows }
    }

    /// The part of one sentence: `width` rows from `first` on.
    fn scores(&self, first: usize, width: usize) -> Scores<'_> {
        let part = |all| -> &[f32] {
            let all: &Tensor = all;
            let row = all.len() / self.rows;
            &all.data()[first * row..(first + width) * row]
        };
        Scores {
            logits: part(&self.logits),
            log_probabilities: part(&self.log_probabilities),
            vocab_size: self.logits.len() / self.rows,
            attention: self.attention.as_ref().map(part),
            source_length: self.attention.as_ref().map_or(0, Tensor::len) / self.rows,
        }
    }
}

/// A sentence that is not done, and its rows of the coming step.
struct Going<'a, S> {
    search: &'a mut S,
    next: Vec<Next>,
}

/// Where each sentence's rows begin.
fn first_rows(widths: &[usize]) -> Vec<usize> {
    widths
        .iter()
        .scan(0, |sum, width| {
            *sum += width;
            Some(*sum - width)
        })
        .collect()
}
