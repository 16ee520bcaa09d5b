//! Batched search: the rows of several sentences, stepped together.
//!
//! Each sentence has its own search, which takes the scores of its rows and returns the rows of the next step, each with
//! its newest token. The rows of a sentence are adjacent, in the order it returned them; finished sentences leave the
//! batch.

use polyhead_tensor::ops::best_tokens::{Candidate, best_tokens, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};
use rayon::prelude::*;

use super::{ListedLogits, NextToken, StepLogits};
use crate::Result;

/// The scores of its rows that a search reads in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredScores {
    /// The k most probable tokens of each row.
    Top(usize),
    /// The scores of all tokens.
    All,
}

impl RequiredScores {
    /// The smallest requirement that includes both.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Top(own), Self::Top(other)) => Self::Top(own.max(other)),
            _ => Self::All,
        }
    }
}

/// The model's predictions of the next token for the rows of one sentence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scores<'a> {
    predictions: Predictions<'a>,
    attention: Option<&'a [f32]>,
    source_length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Predictions<'a> {
    Top(&'a [Vec<Candidate>]),
    All { logits: &'a [f32], log_probabilities: &'a [f32], vocab_size: usize },
}

impl<'a> Scores<'a> {
    /// The logits of a row, for a search that requires all scores.
    pub(super) fn logits(&self, row: usize) -> &'a [f32] {
        let Predictions::All { logits, vocab_size, .. } = self.predictions else {
            unreachable!("required_scores() asked for all scores")
        };
        &logits[row * vocab_size..][..vocab_size]
    }

    /// The log-probabilities of a row, for a search that requires all scores.
    pub(super) fn log_probabilities(&self, row: usize) -> &'a [f32] {
        let Predictions::All { log_probabilities, vocab_size, .. } = self.predictions else {
            unreachable!("required_scores() asked for all scores")
        };
        &log_probabilities[row * vocab_size..][..vocab_size]
    }

    /// The `k` most probable tokens of a row, best first.
    pub(super) fn best(&self, row: usize, k: usize) -> Vec<Candidate> {
        match self.predictions {
            Predictions::Top(best) => best[row].iter().take(k).copied().collect(),
            Predictions::All { .. } => top(self.log_probabilities(row), k),
        }
    }

    /// The model's log-probability of one of a row's candidates, whose score the rules may have changed.
    pub(super) fn log_probability(&self, row: usize, candidate: Candidate) -> f32 {
        match self.predictions {
            Predictions::Top(_) => candidate.score,
            Predictions::All { .. } => self.log_probabilities(row)[candidate.id as usize],
        }
    }

    /// The attention weights of a row over its source tokens (and padding), if the search wants them and the model has
    /// them.
    pub(super) fn attention(&self, row: usize) -> Option<&'a [f32]> {
        Some(&self.attention?[row * self.source_length..][..self.source_length])
    }
}

/// A row of the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextRow {
    /// The row of this step that it extends, counted within the sentence.
    pub(super) parent: usize,
    /// Its newest token.
    pub(super) token: u32,
}

/// The search of one sentence.
pub(super) trait Search: Send {
    /// The maximum number of rows.
    fn width(&self) -> usize;

    /// The scores that it reads in the next step.
    fn required_scores(&self) -> RequiredScores {
        RequiredScores::All
    }

    /// True if it reads [`Scores::attention`].
    fn wants_attention(&self) -> bool {
        false
    }

    /// True if there is nothing to generate, not even a first token.
    fn is_empty(&self) -> bool;

    /// Takes the scores of its rows (one at the first step) and returns the rows of the next step; none when it is done.
    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>>;
}

/// Runs all searches to completion; `sources[i]` belongs to `searches[i]`.
pub(super) fn run<M: NextToken, S: Search>(
    model: &M,
    sources: &[&[u32]],
    start_id: u32,
    searches: &mut [S],
) -> Result<()> {
    let (sources, mut active): (Vec<&[u32]>, Vec<ActiveSearch<'_, S>>) = sources
        .iter()
        .zip(searches)
        .filter(|(_, search)| !search.is_empty())
        .map(|(&source, search)| {
            let token = model.first_token(source, start_id);
            (source, ActiveSearch { search, next: vec![NextRow { parent: 0, token }] })
        })
        .unzip();
    if active.is_empty() {
        return Ok(());
    }
    let n_rows = active.iter().map(|sentence| sentence.search.width()).sum();
    let mut state = model.start(&sources, n_rows)?;
    while !active.is_empty() {
        let tokens: Vec<u32> =
            active.iter().flat_map(|sentence| &sentence.next).map(|row| row.token).collect();
        let (logits, attention) = if active.iter().any(|sentence| sentence.search.wants_attention()) {
            let (logits, attention) = model.step_with_attention(&mut state, &tokens)?;
            (StepLogits::All(logits), attention)
        } else {
            (model.step_listed(&mut state, &tokens)?, None)
        };
        let required = active
            .iter()
            .map(|sentence| sentence.search.required_scores())
            .fold(RequiredScores::Top(0), RequiredScores::and);
        let output =
            StepPredictions { scores: BatchScores::new(&logits, required)?, attention, rows: tokens.len() };
        let widths: Vec<usize> = active.iter().map(|sentence| sentence.next.len()).collect();
        let firsts = first_rows(&widths);
        active.par_iter_mut().zip(&firsts).zip(&widths).try_for_each(|((sentence, first), width)| {
            sentence.next = sentence.search.advance(&output.sentence(*first, *width))?;
            Ok::<_, crate::Error>(())
        })?;
        let rows: Vec<usize> = active
            .iter()
            .zip(firsts)
            .flat_map(|(sentence, first)| sentence.next.iter().map(move |row| first + row.parent))
            .collect();
        active.retain(|sentence| !sentence.next.is_empty());
        if !active.is_empty() && !rows.iter().copied().eq(0..tokens.len()) {
            model.reorder(&mut state, &rows);
        }
    }
    Ok(())
}

/// The model's predictions for all rows of a step.
struct StepPredictions {
    scores: BatchScores,
    attention: Option<Tensor>,
    rows: usize,
}

enum BatchScores {
    Top(Vec<Vec<Candidate>>),
    All { logits: Tensor, log_probabilities: Tensor },
}

impl BatchScores {
    fn new(logits: &StepLogits<'_>, required: RequiredScores) -> Result<Self> {
        Ok(match (logits, required) {
            (StepLogits::All(logits), RequiredScores::Top(k)) => Self::Top(best_tokens(logits, k)?),
            (StepLogits::All(logits), RequiredScores::All) => {
                let logits = logits.to_host()?;
                let log_probabilities = log_probabilities(&logits);
                Self::All { logits, log_probabilities }
            }
            (StepLogits::Listed { groups, .. }, RequiredScores::Top(k)) => {
                let mut best = Vec::new();
                for ListedLogits { logits, ids } in groups {
                    let first = best.len();
                    best.extend(best_tokens(logits, k)?);
                    // Lists are in ascending order, so ties go to the smaller id.
                    let candidates = best[first..].iter_mut().flatten();
                    candidates.for_each(|candidate| candidate.id = ids[candidate.id as usize]);
                }
                Self::Top(best)
            }
            (StepLogits::Listed { groups, vocab_size }, RequiredScores::All) => {
                // Probabilities are those of the list, so that they do not depend on what other sentences require.
                let all = |values: &dyn Fn(&Tensor) -> Tensor| {
                    let values: Vec<Tensor> = groups.iter().map(|group| values(&group.logits)).collect();
                    spread(groups.iter().zip(&values).map(|(group, values)| (group.ids, values)), *vocab_size)
                };
                Self::All { logits: all(&Tensor::clone), log_probabilities: all(&log_probabilities) }
            }
        })
    }
}

fn log_probabilities(logits: &Tensor) -> Tensor {
    log_softmax(&Tape::inference(), &Var::constant(logits.clone())).value().clone()
}

/// Rows × vocab_size from the values of listed ids; −∞ for all others.
pub(crate) fn spread<'a>(groups: impl Iterator<Item = (&'a [u32], &'a Tensor)>, vocab_size: usize) -> Tensor {
    let mut all = Vec::new();
    for (ids, values) in groups {
        for values in values.data().chunks_exact(ids.len()) {
            let first = all.len();
            all.resize(first + vocab_size, f32::NEG_INFINITY);
            ids.iter().zip(values).for_each(|(&id, &value)| all[first + id as usize] = value);
        }
    }
    Tensor::new(&[all.len() / vocab_size, vocab_size], all)
}

impl StepPredictions {
    /// The predictions for one sentence: `width` rows from `first` on.
    fn sentence(&self, first: usize, width: usize) -> Scores<'_> {
        let part = |all| -> &[f32] {
            let all: &Tensor = all;
            let row = all.len() / self.rows;
            &all.data()[first * row..(first + width) * row]
        };
        let predictions = match &self.scores {
            BatchScores::Top(best) => Predictions::Top(&best[first..first + width]),
            BatchScores::All { logits, log_probabilities } => Predictions::All {
                logits: part(logits),
                log_probabilities: part(log_probabilities),
                vocab_size: logits.len() / self.rows,
            },
        };
        Scores {
            predictions,
            attention: self.attention.as_ref().map(part),
            source_length: self.attention.as_ref().map_or(0, Tensor::len) / self.rows,
        }
    }
}

/// The search of an unfinished sentence, and its rows of the next step.
struct ActiveSearch<'a, S> {
    search: &'a mut S,
    next: Vec<NextRow>,
}

/// The first row of each sentence.
fn first_rows(widths: &[usize]) -> Vec<usize> {
    widths
        .iter()
        .scan(0, |sum, width| {
            *sum += width;
            Some(*sum - width)
        })
        .collect()
}
