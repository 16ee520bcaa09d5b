//! Translations that must contain given words: grid beam search (Hokamp & Liu 2017).
//!
//! Hypotheses are sorted into banks by how many tokens of constraints they hold, and each bank has its own beam, so
//! that a hypothesis that already paid for an unlikely word does not compete with one that did not. A hypothesis
//! between constraints goes on freely or begins a constraint that it has not met; one within a constraint must go on
//! with it. It may end when all are met. Constraints come in any order; each is met by tokens of its own, so two that
//! overlap are written one after the other. C tokens of constraints need up to B·(C + 1) rows.
//!
//! ```
//! use polyhead_models::decode::constrained::Constraints;
//! let constraints: Constraints = vec![vec![17, 4], vec![9]]; // "17 4" somewhere, and 9 somewhere
//! # assert_eq!(constraints.len(), 2);
//! ```

use polyhead_tensor::ops::best_tokens::top;

use super::beam::{BeamOptions, Continuation, order};
use super::coverage::look;
use super::finished::Finished;
use super::path::Path;
use super::rows::{Next, Scores, Search, run};
use super::rules::Guide;
use super::stopping::Standing;
use super::{Hypothesis, NextToken};
use crate::{Error, Result};

/// Sequences of tokens that one translation must contain.
pub type Constraints = Vec<Vec<u32>>;

/// The best hypotheses of each source that contain all of its constraints, best first; `constraints[i]` belongs to
/// `sources[i]`. A source has no hypothesis if rules forbid its constraints.
///
/// # Errors
/// If a source cannot be read, the options make no sense, or the constraints do not fit into the maximum length.
pub fn constrained<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    constraints: &[Constraints],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    options.check()?;
    if constraints.len() != sources.len() {
        let message = format!("constraints for {} of {} sources", constraints.len(), sources.len());
        return Err(Error::Request { message });
    }
    let mut searches = Guide::all(&options.decode, sources)?
        .into_iter()
        .zip(constraints)
        .map(|(guide, constraints)| GridSearch::new(guide, constraints, options))
        .collect::<Result<Vec<_>>>()?;
    run(model, sources, options.decode.start_id, &mut searches)?;
    Ok(searches.into_iter().map(|search| search.finished.into_best(options.top_beams)).collect())
}

struct GridSearch<'a> {
    guide: Guide<'a>,
    options: &'a BeamOptions,
    constraints: &'a [Vec<u32>],
    /// Tokens of all constraints, C.
    n_tokens: usize,
    live: Vec<Cell>,
    finished: Finished,
}

/// A live hypothesis.
#[derive(Debug, Clone)]
struct Cell {
    path: Path,
    progress: Progress,
}

/// What a hypothesis holds of the constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    /// Which are met.
    met: Vec<bool>,
    /// The constraint it is in, and how many of its tokens are written.
    within: Option<(usize, usize)>,
    /// Tokens of constraints written: the bank.
    covered: usize,
}

impl Progress {
    /// One token more of a constraint.
    fn with(&self, constraint: usize, constraints: &[Vec<u32>]) -> Self {
        let mut progress = self.clone();
        let written = self.within.map_or(0, |(_, written)| written) + 1;
        progress.covered += 1;
        progress.met[constraint] = written == constraints[constraint].len();
        progress.within = (!progress.met[constraint]).then_some((constraint, written));
        progress
    }
}

impl<'a> GridSearch<'a> {
    fn new(guide: Guide<'a>, constraints: &'a [Vec<u32>], options: &'a BeamOptions) -> Result<Self> {
        let n_tokens: usize = constraints.iter().map(Vec::len).sum();
        let max = guide.limits.max;
        if n_tokens > 0 && n_tokens + 1 > max {
            let message = format!("{n_tokens} tokens of constraints and the end, but {max} tokens at most");
            return Err(Error::Request { message });
        }
        let met = constraints.iter().map(Vec::is_empty).collect();
        let progress = Progress { met, within: None, covered: 0 };
        let live = vec![Cell { path: Path::new(options.decode.start_id), progress }];
        Ok(Self { guide, options, constraints, n_tokens, live, finished: Finished::new(options.beam_size) })
    }

    /// What can follow the live hypothesis `parent`, by bank.
    fn extend(&self, parent: usize, log_probabilities: &[f32], banks: &mut [Vec<Reached>]) -> Result<()> {
        let Cell { path, progress } = &self.live[parent];
        let mut scores = self.guide.edited(&path.history, log_probabilities)?.into_owned();
        let mut reach = |id: u32, score: f32, progress: Progress| {
            let log_probability = log_probabilities[id as usize];
            let sum = path.sum + f64::from(score);
            let continuation = Continuation { parent, id, log_probability, score, sum };
            banks[progress.covered].push(Reached { continuation, progress });
        };
        for constraint in self.possible(progress) {
            let id = self.constraints[constraint][progress.within.map_or(0, |(_, written)| written)];
            let score = *scores.get(id as usize).ok_or_else(|| outside(id, scores.len()))?;
            if score > f32::NEG_INFINITY {
                reach(id, score, progress.with(constraint, self.constraints));
            }
            // A whole constraint by chance is the constraint: it is met, not written beside it.
            if self.constraints[constraint].len() == 1 {
                scores[id as usize] = f32::NEG_INFINITY;
            }
        }
        if progress.within.is_some() {
            return Ok(());
        }
        if progress.covered < self.n_tokens
            && let Some(end) = scores.get_mut(self.guide.end_id() as usize)
        {
            *end = f32::NEG_INFINITY;
        }
        for free in top(&scores, 2 * self.options.beam_size) {
            reach(free.id, free.score, progress.clone());
        }
        Ok(())
    }

    /// The constraints that the next token can begin or must go on with; of equal ones the first.
    fn possible(&self, progress: &Progress) -> Vec<usize> {
        if let Some((constraint, _)) = progress.within {
            return vec![constraint];
        }
        let unmet = |&constraint: &usize| !progress.met[constraint];
        let is_first = |&constraint: &usize| {
            let own = &self.constraints[constraint];
            !(0..constraint).filter(unmet).any(|other| self.constraints[other] == *own)
        };
        (0..self.constraints.len()).filter(unmet).filter(is_first).collect()
    }

    /// True if the tokens that are missing, and the end, still fit behind `length` tokens.
    fn fits(&self, progress: &Progress, length: usize) -> bool {
        let missing = self.n_tokens - progress.covered;
        missing == 0 || length + missing < self.guide.limits.max
    }

    /// The best of one bank: those that end are finished, B of the others go on.
    fn select(&mut self, mut bank: Vec<Reached>, length: usize) -> Vec<Reached> {
        let beam_size = self.options.beam_size;
        bank.retain(|reached| self.fits(&reached.progress, length));
        bank.sort_by(|a, b| order(&a.continuation, &b.continuation));
        bank.truncate(2 * beam_size);
        let mut kept = Vec::new();
        for (rank, reached) in bank.into_iter().enumerate() {
            let ends = self.guide.ends(reached.continuation.id, length);
            if ends && rank < beam_size && reached.progress.covered == self.n_tokens {
                let path = reached.continuation.of(&self.live[reached.continuation.parent].path);
                self.finished.add(self.options.finish(&path));
            } else if !ends && kept.len() < beam_size {
                kept.push(reached);
            }
        }
        kept
    }
}

/// A continuation and what it holds of the constraints.
struct Reached {
    continuation: Continuation,
    progress: Progress,
}

fn outside(id: u32, vocab_size: usize) -> Error {
    let message = format!("token {id} in a constraint, but the vocabulary has {vocab_size} tokens");
    Error::Request { message }
}

impl Search for GridSearch<'_> {
    fn width(&self) -> usize {
        self.options.beam_size * (self.n_tokens + 1)
    }

    fn is_empty(&self) -> bool {
        self.guide.limits.max == 0
    }

    fn wants_attention(&self) -> bool {
        self.options.coverage_penalty != 0.0
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        if self.wants_attention() {
            for (row, cell) in self.live.iter_mut().enumerate() {
                look(&mut cell.path, scores, row, self.guide.source_length)?;
            }
        }
        let mut banks: Vec<Vec<Reached>> = (0..=self.n_tokens).map(|_| Vec::new()).collect();
        for parent in 0..self.live.len() {
            self.extend(parent, scores.log_probabilities(parent), &mut banks)?;
        }
        let length = self.live[0].path.ids().len() + 1;
        let (mut live, mut next) = (Vec::new(), Vec::new());
        for bank in banks {
            for Reached { continuation, progress } in self.select(bank, length) {
                let path = continuation.of(&self.live[continuation.parent].path);
                next.push(Next { parent: continuation.parent, token: continuation.id });
                live.push(Cell { path, progress });
            }
        }
        self.live = live;
        let sums = self.live.iter().map(|cell| cell.path.sum);
        let best_sum = sums.fold(f64::NEG_INFINITY, f64::max);
        let standing = Standing { best_sum, length, max_length: self.guide.limits.max };
        let done = self.options.early_stopping.holds(&self.finished, standing, self.options.length_penalty);
        Ok(if done { Vec::new() } else { next })
    }
}
