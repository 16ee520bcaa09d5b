//! Beam search: the B best unfinished hypotheses go on at each step.
//!
//! The score of a hypothesis of n tokens is Σ log p(y_t | y_1 … y_{t−1}, x) over its length penalty. As in Hugging
//! Face's `generate` (transformers 5.22): of all continuations of the live hypotheses the 2·B with the highest sums are
//! candidates. Those that end are finished if they are among the first B; of those that do not end the best B live on.
//! At the maximum length everything counts as finished. The B best finished hypotheses are kept until [`EarlyStopping`]
//! says that no better will come. Ties go to the smaller (beam, id). (Graves 2012; Sutskever, Vinyals & Le 2014.)
//!
//! Rules act on log-probabilities after the softmax, without normalising again; see [`super::rules`].
//!
//! "je suis étudiant", where greedy decoding falls for *thanks*:
//!
//! ```
//! # use polyhead_models::{Result, decode::{DecodeOptions, NextToken}};
//! # use polyhead_tensor::Tensor;
//! use polyhead_models::decode::{beam::{BeamOptions, beam}, greedy::greedy, length_penalty::LengthPenalty};
//! const WORDS: [&str; 6] = ["a", "am", "I", "thanks", "student", "<eos>"];
//! /// Row i: the probabilities of the word after word i. <eos> also stands before the first word.
//! struct Table([[f32; 6]; 6]);
//! # impl NextToken for Table {
//! #     type State = ();
//! #     fn start(&self, _: &[&[u32]], _: usize) -> Result<()> { Ok(()) }
//! #     fn step(&self, _: &mut (), tokens: &[u32]) -> Result<Tensor> {
//! #         let rows = tokens.iter().flat_map(|&id| self.0[id as usize].map(f32::ln)).collect();
//! #         Ok(Tensor::new(&[tokens.len(), 6], rows))
//! #     }
//! #     fn reorder(&self, _: &mut (), _: &[usize]) {}
//! # }
//! let model = Table([
//!     // a   am    I  thanks student <eos>
//!     [0.0, 0.0, 0.0, 0.0, 0.9, 0.1],    // after a
//!     [0.9, 0.0, 0.0, 0.1, 0.0, 0.0],    // after am
//!     [0.0, 0.9, 0.0, 0.0, 0.0, 0.1],    // after I
//!     [0.3, 0.0, 0.25, 0.0, 0.0, 0.45],  // after thanks
//!     [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],    // after student
//!     [0.1, 0.0, 0.4, 0.5, 0.0, 0.0],    // at first
//! ]);
//! let decode = DecodeOptions { start_id: 5, end_id: 5, ..DecodeOptions::default() };
//! let source: &[u32] = &[0, 1, 2];
//! let words = |ids: &[u32]| ids.iter().map(|&id| WORDS[id as usize]).collect::<Vec<_>>().join(" ");
//!
//! let greedy = greedy(&model, &[source], &decode)?;
//! assert_eq!(words(&greedy[0].ids), "thanks <eos>"); // 0.5 · 0.45 = 0.225
//!
//! let options = BeamOptions {
//!     decode,
//!     beam_size: 2,
//!     top_beams: 2,
//!     length_penalty: LengthPenalty::Power(0.0),
//!     ..BeamOptions::default()
//! };
//! let best = &beam(&model, &[source], &options)?[0];
//! assert_eq!(words(&best[0].ids), "I am a student <eos>"); // 0.4 · 0.9 · 0.9 · 0.9 · 1 = 0.2916
//! assert!((best[0].score.exp() - 0.2916).abs() < 1e-6);
//! assert_eq!(words(&best[1].ids), "thanks <eos>");
//! # Ok::<(), polyhead_models::Error>(())
//! ```

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::coverage::{coverage_penalty, look};
use super::finished::Finished;
use super::length_penalty::LengthPenalty;
use super::path::Path;
use super::rows::{Need, Next, Scores, Search, run};
use super::rules::Guide;
use super::spelling::Spellings;
use super::stopping::{EarlyStopping, Standing};
use super::trace::{BeamTrace, Fate, TracedCandidate};
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::{Error, Result};

/// How wide to search and what to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamOptions {
    /// Start, end, lengths and rules; see [`DecodeOptions`].
    pub decode: DecodeOptions,
    /// Hypotheses that go on at each step, B; 4.
    pub beam_size: usize,
    /// Hypotheses to return for each source, best first; 1, at most B.
    pub top_beams: usize,
    /// What sums are divided by; the length, n¹.
    pub length_penalty: LengthPenalty,
    /// β of the penalty for source tokens that were not looked at (see [`super::coverage`]); 0 for none.
    pub coverage_penalty: f64,
    /// When to stop; by the heuristic.
    pub early_stopping: EarlyStopping,
    /// What tokens write: of hypotheses with one text only the first goes on (see [`super::spelling`]); none, by ids alone.
    /// Constrained search goes by ids alone.
    pub spellings: Option<Arc<Spellings>>,
}

impl Default for BeamOptions {
    fn default() -> Self {
        Self {
            decode: DecodeOptions::default(),
            beam_size: 4,
            top_beams: 1,
            length_penalty: LengthPenalty::default(),
            coverage_penalty: 0.0,
            early_stopping: EarlyStopping::default(),
            spellings: None,
        }
    }
}

impl BeamOptions {
    pub(super) fn check(&self) -> Result<()> {
        let Self { beam_size, top_beams, .. } = *self;
        if beam_size == 0 || top_beams > beam_size {
            let message = format!(
                "{top_beams} of {beam_size} beams, expected a beam size of 1 or more and at most as many results"
            );
            return Err(Error::Request { message });
        }
        if self.coverage_penalty.is_nan() || self.coverage_penalty < 0.0 {
            let message = format!("a coverage penalty of {}, expected 0 or more", self.coverage_penalty);
            return Err(Error::Request { message });
        }
        Ok(())
    }

    /// A finished hypothesis with its score. Coverage only lowers it, so a bound on live ones need not know it.
    pub(super) fn finish(&self, path: &Path) -> Hypothesis {
        let mean = self.length_penalty.score(path.sum, path.ids().len());
        path.finish_with(mean + coverage_penalty(self.coverage_penalty, &path.coverage))
    }
}

/// The best hypotheses of each source, best first.
///
/// There are fewer than `top_beams` only where the model, the rules or [`BeamOptions::spellings`] leave no others.
///
/// # Errors
/// If a source cannot be read, or the options make no sense.
pub fn beam<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    let found = search(model, sources, options, || None)?;
    Ok(found.into_iter().map(|(hypotheses, _)| hypotheses).collect())
}

/// [`beam`], with what it looked at on the way.
///
/// # Errors
/// If a source cannot be read, or the options make no sense.
pub fn beam_traced<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
) -> Result<Vec<(Vec<Hypothesis>, BeamTrace)>> {
    let found = search(model, sources, options, || Some(BeamTrace::default()))?;
    Ok(found.into_iter().map(|(hypotheses, trace)| (hypotheses, trace.unwrap_or_default())).collect())
}

type Found = (Vec<Hypothesis>, Option<BeamTrace>);

fn search<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
    trace: impl Fn() -> Option<BeamTrace>,
) -> Result<Vec<Found>> {
    options.check()?;
    let start_id = options.decode.start_id;
    let mut searches: Vec<BeamSearch<'_>> = Guide::all(&options.decode, sources)?
        .into_iter()
        .map(|guide| BeamSearch {
            guide,
            options,
            live: vec![Path::new(start_id)],
            finished: Finished::new(options.beam_size),
            written: HashSet::new(),
            trace: trace(),
        })
        .collect();
    run(model, sources, start_id, &mut searches)?;
    Ok(searches
        .into_iter()
        .map(|search| (search.finished.into_best(options.top_beams), search.trace))
        .collect())
}

struct BeamSearch<'a> {
    guide: Guide<'a>,
    options: &'a BeamOptions,
    /// Best first.
    live: Vec<Path>,
    finished: Finished,
    /// The texts of all hypotheses that went on or ended, where doubles are left out.
    written: HashSet<Written>,
    trace: Option<BeamTrace>,
}

/// The hash of a text, and whether it has ended.
type Written = (u64, bool);

/// A token that continues a live hypothesis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Continuation {
    pub(super) parent: usize,
    pub(super) id: u32,
    /// Its log-probability as the model gives it, and after all rules.
    pub(super) log_probability: f32,
    pub(super) score: f32,
    /// The sum with it.
    pub(super) sum: f64,
}

impl Continuation {
    /// The hypothesis with the token.
    pub(super) fn of(&self, parent: &Path) -> Path {
        let mut path = parent.clone();
        path.push(self.id, self.log_probability, self.score);
        path
    }
}

/// The highest sum first, of equals the smaller (beam, id).
pub(super) fn order(a: &Continuation, b: &Continuation) -> Ordering {
    b.sum.total_cmp(&a.sum).then_with(|| (a.parent, a.id).cmp(&(b.parent, b.id)))
}

impl Search for BeamSearch<'_> {
    fn width(&self) -> usize {
        self.options.beam_size
    }

    fn is_empty(&self) -> bool {
        self.guide.limits.max == 0
    }

    fn wants_attention(&self) -> bool {
        self.options.coverage_penalty != 0.0
    }

    fn need(&self) -> Need {
        let needs = self.live.iter().map(|path| self.guide.need(&path.history, self.wanted()));
        needs.fold(Need::Best(0), Need::and)
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        if self.wants_attention() {
            for (row, path) in self.live.iter_mut().enumerate() {
                look(path, scores, row, self.guide.source_length)?;
            }
        }
        let continuations = self.continuations(scores)?;
        if continuations.is_empty() {
            // Rules forbid every token: what is alive ends where it is.
            for path in std::mem::take(&mut self.live) {
                self.finish(&path);
            }
            return Ok(Vec::new());
        }
        let length = self.live[0].ids().len() + 1;
        let (mut live, mut next, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, continuation) in continuations.iter().enumerate() {
            let &Continuation { parent, id, score, sum, .. } = continuation;
            let ends = self.guide.ends(id, length);
            let fate = if ends && rank < self.options.beam_size {
                let path = continuation.of(&self.live[parent]);
                self.written.extend(self.written(&path, true));
                self.finish(&path);
                Fate::Finished
            } else if !ends && live.len() < self.options.beam_size {
                let path = continuation.of(&self.live[parent]);
                self.written.extend(self.written(&path, false));
                live.push(path);
                next.push(Next { parent, token: id });
                Fate::Kept(live.len() - 1)
            } else {
                Fate::Pruned
            };
            traced.push(TracedCandidate { parent, id, log_probability: score, sum, fate });
        }
        self.live = live;
        if let Some(trace) = &mut self.trace {
            trace.steps.push(traced);
        }
        Ok(if self.is_done(length) { Vec::new() } else { next })
    }
}

impl BeamSearch<'_> {
    /// How many continuations are looked at: as at most one in each row ends, half of them do not.
    fn wanted(&self) -> usize {
        2 * self.options.beam_size
    }

    /// The 2·B best.
    fn continuations(&self, scores: &Scores<'_>) -> Result<Vec<Continuation>> {
        let wanted = self.wanted();
        let mut all = Vec::new();
        for (parent, path) in self.live.iter().enumerate() {
            let best = self.guide.best(&path.history, scores, parent, wanted)?;
            all.extend(best.into_iter().map(|candidate| Continuation {
                parent,
                id: candidate.id,
                log_probability: scores.log_probability(parent, candidate),
                score: candidate.score,
                sum: path.sum + f64::from(candidate.score),
            }));
        }
        all.sort_by(order);
        self.drop_doubles(&mut all);
        all.truncate(wanted);
        Ok(all)
    }

    /// Leaves out what spells a text that has been written before, or that an earlier one here spells.
    fn drop_doubles(&self, continuations: &mut Vec<Continuation>) {
        let Some(spellings) = &self.options.spellings else { return };
        let texts: Vec<u64> = self.live.iter().map(|path| spellings.text(path.ids())).collect();
        let length = self.live[0].ids().len() + 1;
        let mut now = HashSet::new();
        continuations.retain(|&Continuation { parent, id, .. }| {
            let written = (spellings.then(texts[parent], id), self.guide.ends(id, length));
            !self.written.contains(&written) && now.insert(written)
        });
    }

    /// What a hypothesis has written, where that counts.
    fn written(&self, path: &Path, ends: bool) -> Option<Written> {
        Some((self.options.spellings.as_ref()?.text(path.ids()), ends))
    }

    fn finish(&mut self, path: &Path) {
        self.finished.add(self.options.finish(path));
    }

    fn is_done(&self, length: usize) -> bool {
        let Some(best) = self.live.first() else { return true };
        let standing = Standing { best_sum: best.sum, length, max_length: self.guide.limits.max };
        self.options.early_stopping.holds(&self.finished, standing, self.options.length_penalty)
    }
}
