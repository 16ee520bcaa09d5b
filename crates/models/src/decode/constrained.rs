//! Lexically constrained decoding by grid beam search (Hokamp & Liu 2017): translations that contain given words.
//!
//! Hypotheses are grouped into banks by the number of constraint tokens they contain, and each bank has its own beam, so
//! that a hypothesis that has already generated an unlikely word does not compete with one that has not. A hypothesis
//! outside a constraint generates freely or begins an unmet constraint; one inside a constraint must continue it. It may
//! end when all are met. Constraints may be met in any order, each by its own tokens, so two that overlap are generated
//! one after the other. C constraint tokens need up to B·(C + 1) rows.
//!
//! A hypothesis whose most probable continuation is the end is complete: it ends, or begins an unmet constraint, but does
//! not go on freely. The tokens after a complete sentence repeat and are near certain, so that a mean over the length would
//! favour a long row of them to the right translation. [`EarlyStopping::Never`] asks for all sequences and lifts this.
//!
//! ```
//! use polyhead_models::decode::constrained::Constraints;
//! let constraints: Constraints = vec![vec![17, 4], vec![9]]; // "17 4" somewhere, and 9 somewhere
//! # assert_eq!(constraints.len(), 2);
//! ```

use polyhead_tensor::ops::best_tokens::top;

use super::beam::{BeamOptions, Continuation, order};
use super::coverage::accumulate;
use super::finished::Finished;
use super::partial::PartialHypothesis;
use super::rows::{NextRow, Scores, Search, run};
use super::rules::SentenceRules;
use super::stopping::{EarlyStopping, Frontier};
use super::{Hypothesis, NextToken};
use crate::{Error, Result};

/// Sequences of tokens that one translation must contain.
pub type Constraints = Vec<Vec<u32>>;

/// The best hypotheses of each source that contain all of its constraints, best first; `constraints[i]` belongs to
/// `sources[i]`. A source has no hypotheses if the rules forbid its constraints.
///
/// # Errors
/// If a source is invalid, the options are, or the constraints exceed the maximum length.
pub fn constrained<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    constraints: &[Constraints],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    options.check()?;
    if constraints.len() != sources.len() {
        let message = format!(
            "{} lists of constraints for {} sources, expected one each",
            constraints.len(),
            sources.len()
        );
        return Err(Error::Request { message });
    }
    let mut searches = SentenceRules::all(&options.decode, sources)?
        .into_iter()
        .zip(constraints)
        .map(|(rules, constraints)| GridSearch::new(rules, constraints, options))
        .collect::<Result<Vec<_>>>()?;
    run(model, sources, options.decode.start_id, &mut searches)?;
    Ok(searches.into_iter().map(|search| search.finished.into_best(options.top_beams)).collect())
}

struct GridSearch<'a> {
    rules: SentenceRules<'a>,
    options: &'a BeamOptions,
    constraints: &'a [Vec<u32>],
    /// Total number of constraint tokens, C.
    n_tokens: usize,
    live: Vec<GridHypothesis>,
    finished: Finished,
}

/// A live hypothesis and its progress through the constraints.
#[derive(Debug, Clone)]
struct GridHypothesis {
    partial: PartialHypothesis,
    progress: Progress,
}

/// Progress of a hypothesis through the constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    /// True for each constraint that is met.
    met: Vec<bool>,
    /// The constraint in progress and the number of its tokens generated so far.
    within: Option<(usize, usize)>,
    /// Number of constraint tokens generated: the bank.
    covered: usize,
}

impl Progress {
    /// The progress after one more token of a constraint.
    fn advance(&self, constraint: usize, constraints: &[Vec<u32>]) -> Self {
        let mut progress = self.clone();
        let generated = self.within.map_or(0, |(_, generated)| generated) + 1;
        progress.covered += 1;
        progress.met[constraint] = generated == constraints[constraint].len();
        progress.within = (!progress.met[constraint]).then_some((constraint, generated));
        progress
    }
}

impl<'a> GridSearch<'a> {
    fn new(rules: SentenceRules<'a>, constraints: &'a [Vec<u32>], options: &'a BeamOptions) -> Result<Self> {
        let n_tokens: usize = constraints.iter().map(Vec::len).sum();
        let max = rules.limits.max;
        if n_tokens > 0 && n_tokens + 1 > max {
            let message =
                format!("{n_tokens} constraint tokens and the end token, expected at most {max} tokens");
            return Err(Error::Request { message });
        }
        let met = constraints.iter().map(Vec::is_empty).collect();
        let progress = Progress { met, within: None, covered: 0 };
        let live =
            vec![GridHypothesis { partial: PartialHypothesis::new(options.decode.start_id), progress }];
        Ok(Self { rules, options, constraints, n_tokens, live, finished: Finished::new(options.beam_size) })
    }

    /// Adds the continuations of the live hypothesis `parent` to their banks.
    fn extend(
        &self,
        parent: usize,
        log_probabilities: &[f32],
        banks: &mut [Vec<GridCandidate>],
    ) -> Result<()> {
        let GridHypothesis { partial, progress } = &self.live[parent];
        let mut scores = self.rules.apply(&partial.history, log_probabilities)?.into_owned();
        let mut add = |id: u32, score: f32, progress: Progress| {
            let log_probability = log_probabilities[id as usize];
            let sum = partial.sum + f64::from(score);
            let continuation = Continuation { parent, id, log_probability, score, sum };
            banks[progress.covered].push(GridCandidate { continuation, progress });
        };
        let (is_complete, mut has_begun) = (self.is_complete(&scores), false);
        for constraint in self.possible(progress) {
            let id = self.constraints[constraint][progress.within.map_or(0, |(_, generated)| generated)];
            let score = *scores.get(id as usize).ok_or_else(|| outside(id, scores.len()))?;
            if score > f32::NEG_INFINITY {
                add(id, score, progress.advance(constraint, self.constraints));
                has_begun = true;
            }
            // A one-token constraint cannot also be generated freely: that would meet the constraint.
            if self.constraints[constraint].len() == 1 {
                scores[id as usize] = f32::NEG_INFINITY;
            }
        }
        if progress.within.is_some() {
            return Ok(());
        }
        if progress.covered < self.n_tokens {
            if is_complete && has_begun {
                return Ok(());
            }
            for id in self.rules.end_ids() {
                if let Some(end) = scores.get_mut(id as usize) {
                    *end = f32::NEG_INFINITY;
                }
            }
        } else if is_complete {
            let ends = self.rules.end_ids().filter_map(|id| Some((id, *scores.get(id as usize)?)));
            for (id, score) in ends.filter(|(_, score)| *score > f32::NEG_INFINITY) {
                add(id, score, progress.clone());
            }
            return Ok(());
        }
        for free in top(&scores, self.rules.candidates_per_beam() * self.options.beam_size) {
            add(free.id, free.score, progress.clone());
        }
        Ok(())
    }

    /// True if an end is the most probable continuation of a hypothesis.
    fn is_complete(&self, scores: &[f32]) -> bool {
        if self.n_tokens == 0 || self.options.early_stopping == EarlyStopping::Never {
            return false;
        }
        top(scores, 1).first().is_some_and(|best| self.rules.is_end(best.id))
    }

    /// The constraints that the next token can begin or must continue; of equal constraints only the first.
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

    /// True if the missing constraint tokens and the end token still fit after `length` tokens.
    fn fits(&self, progress: &Progress, length: usize) -> bool {
        let missing = self.n_tokens - progress.covered;
        missing == 0 || length + missing < self.rules.limits.max
    }

    /// Selects the best of one bank: complete ones are finished, the best B of the others stay live.
    fn select(&mut self, mut bank: Vec<GridCandidate>, length: usize) -> Vec<GridCandidate> {
        let beam_size = self.options.beam_size;
        bank.retain(|candidate| self.fits(&candidate.progress, length));
        bank.sort_by(|a, b| order(&a.continuation, &b.continuation));
        bank.truncate(self.rules.candidates_per_beam() * beam_size);
        let mut live = Vec::new();
        for (rank, candidate) in bank.into_iter().enumerate() {
            let ends = self.rules.ends(candidate.continuation.id, length);
            if ends && rank < beam_size && candidate.progress.covered == self.n_tokens {
                let parent = &self.live[candidate.continuation.parent];
                let partial = candidate.continuation.extend(&parent.partial);
                self.finished.add(self.options.finish(&partial, &self.rules));
            } else if !ends && live.len() < beam_size {
                live.push(candidate);
            }
        }
        live
    }
}

/// A continuation and its progress through the constraints.
struct GridCandidate {
    continuation: Continuation,
    progress: Progress,
}

fn outside(id: u32, vocab_size: usize) -> Error {
    let message = format!("token {id} in a constraint, expected ids below the vocabulary size {vocab_size}");
    Error::Request { message }
}

impl Search for GridSearch<'_> {
    fn width(&self) -> usize {
        self.options.beam_size * (self.n_tokens + 1)
    }

    fn is_empty(&self) -> bool {
        self.rules.limits.max == 0
    }

    fn wants_attention(&self) -> bool {
        self.options.coverage_penalty != 0.0
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        if self.wants_attention() {
            for (row, hypothesis) in self.live.iter_mut().enumerate() {
                accumulate(&mut hypothesis.partial, scores, row, self.rules.source_length)?;
            }
        }
        let mut banks: Vec<Vec<GridCandidate>> = (0..=self.n_tokens).map(|_| Vec::new()).collect();
        for parent in 0..self.live.len() {
            self.extend(parent, scores.log_probabilities(parent), &mut banks)?;
        }
        let length = self.live[0].partial.ids().len() + 1;
        let (mut live, mut next) = (Vec::new(), Vec::new());
        for bank in banks {
            for GridCandidate { continuation, progress } in self.select(bank, length) {
                let partial = continuation.extend(&self.live[continuation.parent].partial);
                next.push(NextRow { parent: continuation.parent, token: continuation.id });
                live.push(GridHypothesis { partial, progress });
            }
        }
        self.live = live;
        let sums = self.live.iter().map(|hypothesis| hypothesis.partial.sum);
        let best_sum = sums.fold(f64::NEG_INFINITY, f64::max);
        let [length, max_length] =
            [length, self.rules.limits.max].map(|length| self.rules.scored_length(length));
        let frontier = Frontier { best_sum, length, max_length };
        let done =
            self.options.early_stopping.should_stop(&self.finished, frontier, self.options.length_penalty);
        Ok(if done { Vec::new() } else { next })
    }
}
