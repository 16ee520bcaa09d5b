//! Rows of several sentences, stepped together.
//!
//! Each sentence has its own search: it gets the scores of its rows and says which rows go on, with which token. Rows
//! of a sentence lie side by side, in the order it named them; sentences that are done leave the batch.

use polyhead_tensor::ops::best_tokens::{Candidate, best_tokens, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};
use rayon::prelude::*;

use super::NextToken;
use crate::Result;

/// What a search reads of its rows' scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// So many of the most probable tokens of each row.
    Best(usize),
    /// All scores.
    All,
}

impl Need {
    /// What serves both.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Best(own), Self::Best(other)) => Self::Best(own.max(other)),
            _ => Self::All,
        }
    }
}

/// What the model says about the next token of one sentence's rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scores<'a> {
    said: Part<'a>,
    attention: Option<&'a [f32]>,
    source_length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Best(&'a [Vec<Candidate>]),
    All { logits: &'a [f32], log_probabilities: &'a [f32], vocab_size: usize },
}

impl<'a> Scores<'a> {
    /// A row's logits, for a search that needs them all.
    pub(super) fn logits(&self, row: usize) -> &'a [f32] {
        let Part::All { logits, vocab_size, .. } = self.said else {
            unreachable!("a search says what it needs")
        };
        &logits[row * vocab_size..][..vocab_size]
    }

    /// A row's log-probabilities, for a search that needs them all.
    pub(super) fn log_probabilities(&self, row: usize) -> &'a [f32] {
        let Part::All { log_probabilities, vocab_size, .. } = self.said else {
            unreachable!("a search says what it needs")
        };
        &log_probabilities[row * vocab_size..][..vocab_size]
    }

    /// The `k` most probable tokens of a row, best first.
    pub(super) fn best(&self, row: usize, k: usize) -> Vec<Candidate> {
        match self.said {
            Part::Best(best) => best[row].iter().take(k).copied().collect(),
            Part::All { .. } => top(self.log_probabilities(row), k),
        }
    }

    /// The log-probability of one of a row's candidates, whose score rules may have changed where they saw all scores.
    pub(super) fn log_probability(&self, row: usize, candidate: Candidate) -> f32 {
        match self.said {
            Part::Best(_) => candidate.score,
            Part::All { .. } => self.log_probabilities(row)[candidate.id as usize],
        }
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

    /// What it reads of the scores of the coming step.
    fn need(&self) -> Need {
        Need::All
    }

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
        let (logits, attention) = if going.iter().any(|sentence| sentence.search.wants_attention()) {
            model.step_attending(&mut state, &tokens)?
        } else {
            (model.step(&mut state, &tokens)?, None)
        };
        let need = going.iter().map(|sentence| sentence.search.need()).fold(Need::Best(0), Need::and);
        let said = Said { scores: AllScores::new(&logits, need)?, attention, rows: tokens.len() };
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
    scores: AllScores,
    attention: Option<Tensor>,
    rows: usize,
}

enum AllScores {
    Best(Vec<Vec<Candidate>>),
    All { logits: Tensor, log_probabilities: Tensor },
}

impl AllScores {
    fn new(logits: &Tensor, need: Need) -> Result<Self> {
        Ok(match need {
            Need::Best(k) => Self::Best(best_tokens(logits, k)?),
            Need::All => {
                let logits = logits.to_host()?;
                let log_probabilities =
                    log_softmax(&Tape::inference(), &Var::constant(logits.clone())).value().clone();
                Self::All { logits, log_probabilities }
            }
        })
    }
}

impl Said {
    /// The part of one sentence: `width` rows from `first` on.
    fn scores(&self, first: usize, width: usize) -> Scores<'_> {
        let part = |all| -> &[f32] {
            let all: &Tensor = all;
            let row = all.len() / self.rows;
            &all.data()[first * row..(first + width) * row]
        };
        let said = match &self.scores {
            AllScores::Best(best) => Part::Best(&best[first..first + width]),
            AllScores::All { logits, log_probabilities } => Part::All {
                logits: part(logits),
                log_probabilities: part(log_probabilities),
                vocab_size: logits.len() / self.rows,
            },
        };
        Scores {
            said,
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
