//! Beam search: at each step the B best live hypotheses are extended.
//!
//! The score of a hypothesis of n tokens is Σ log p(y_t | y_1 … y_{t−1}, x) over its length penalty, both without a forced
//! prefix. As in Hugging Face's `generate` (transformers 5.22): of all continuations of the live hypotheses the 2·B with
//! the highest sums are candidates ((e + 1)·B with e > 1 end tokens). Those that end are finished if they are among the first B; of those that do not end the best B stay live.
//! At the maximum length every candidate is finished. The search keeps the B best finished hypotheses until
//! [`EarlyStopping`] decides that none better will follow. Ties go to the smaller (beam, id). (Graves 2012; Sutskever,
//! Vinyals & Le 2014.)
//!
//! Rules modify log-probabilities after the softmax, which are not renormalised by default; see [`super::rules`].
//!
//! "je suis étudiant", where greedy decoding is misled by *thanks*:
//!
//! ```
//! # use polyhead_models::{Result, decode::{DecodeOptions, NextToken}};
//! # use polyhead_tensor::Tensor;
//! use polyhead_models::decode::{beam::{BeamOptions, beam}, greedy::greedy, length_penalty::LengthPenalty};
//! const WORDS: [&str; 6] = ["a", "am", "I", "thanks", "student", "<eos>"];
//! /// Row i: the probabilities of the word after word i. <eos> is also the start token.
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
//!     [0.1, 0.0, 0.4, 0.5, 0.0, 0.0],    // at the start
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

use super::coverage::{accumulate, coverage_penalty};
use super::finished::Finished;
use super::length_penalty::LengthPenalty;
use super::partial::PartialHypothesis;
use super::rows::{NextRow, RequiredScores, Scores, Search, run};
use super::rules::SentenceRules;
use super::stopping::{EarlyStopping, Frontier};
use super::surface_forms::SurfaceForms;
use super::trace::{BeamTrace, CandidateOutcome, TracedCandidate};
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::{Error, Result};

/// Options of beam search.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamOptions {
    /// Start, end, lengths and rules; see [`DecodeOptions`].
    pub decode: DecodeOptions,
    /// Number of live hypotheses, B; default: 4.
    pub beam_size: usize,
    /// Number of hypotheses returned per source, best first, at most B; default: 1.
    pub top_beams: usize,
    /// The length penalty that divides the sums; default: the length, n¹.
    pub length_penalty: LengthPenalty,
    /// β of the penalty for source tokens that received little attention (see [`super::coverage`]); default: 0, none.
    pub coverage_penalty: f64,
    /// The stopping criterion; default: the heuristic.
    pub early_stopping: EarlyStopping,
    /// The surface forms of tokens: of several hypotheses with the same text only the first is extended (see
    /// [`super::surface_forms`]); default: none, hypotheses are compared by ids. Constrained search always compares by ids.
    pub surface_forms: Option<Arc<SurfaceForms>>,
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
            surface_forms: None,
        }
    }
}

impl BeamOptions {
    pub(super) fn check(&self) -> Result<()> {
        let Self { beam_size, top_beams, .. } = *self;
        if beam_size == 0 || top_beams > beam_size {
            let message = format!(
                "{top_beams} of {beam_size} beams, expected a beam size of at least 1 and at most that many results"
            );
            return Err(Error::Request { message });
        }
        if self.coverage_penalty.is_nan() || self.coverage_penalty < 0.0 {
            let message = format!("a coverage penalty of {}, expected 0 or more", self.coverage_penalty);
            return Err(Error::Request { message });
        }
        Ok(())
    }

    /// A finished hypothesis with its score. Coverage only lowers the score, so a bound on live hypotheses can ignore it.
    pub(super) fn finish(&self, partial: &PartialHypothesis, rules: &SentenceRules<'_>) -> Hypothesis {
        let mean = self.length_penalty.score(partial.sum, rules.scored_length(partial.ids().len()));
        partial.finish_with(mean + coverage_penalty(self.coverage_penalty, &partial.coverage))
    }
}

/// The best hypotheses of each source, best first.
///
/// Fewer than `top_beams` are returned only if the model, the rules or [`BeamOptions::surface_forms`] allow no others.
///
/// # Errors
/// If a source is invalid, or the options are.
pub fn beam<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    let found = search(model, sources, options, || None)?;
    Ok(found.into_iter().map(|(hypotheses, _)| hypotheses).collect())
}

/// Like [`beam`], with a trace of the search.
///
/// # Errors
/// If a source is invalid, or the options are.
pub fn beam_traced<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
) -> Result<Vec<(Vec<Hypothesis>, BeamTrace)>> {
    let found = search(model, sources, options, || Some(BeamTrace::default()))?;
    Ok(found.into_iter().map(|(hypotheses, trace)| (hypotheses, trace.unwrap_or_default())).collect())
}

type TracedHypotheses = (Vec<Hypothesis>, Option<BeamTrace>);

fn search<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &BeamOptions,
    trace: impl Fn() -> Option<BeamTrace>,
) -> Result<Vec<TracedHypotheses>> {
    options.check()?;
    let start_id = options.decode.start_id;
    let mut searches: Vec<BeamSearch<'_>> = SentenceRules::all(&options.decode, sources)?
        .into_iter()
        .map(|rules| BeamSearch {
            rules,
            options,
            live: vec![PartialHypothesis::new(start_id)],
            finished: Finished::new(options.beam_size),
            texts: HashSet::new(),
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
    rules: SentenceRules<'a>,
    options: &'a BeamOptions,
    /// Best first.
    live: Vec<PartialHypothesis>,
    finished: Finished,
    /// The texts of all hypotheses so far, live or finished; used only with surface forms.
    texts: HashSet<TextKey>,
    trace: Option<BeamTrace>,
}

/// The hash of a text, and true if it is complete.
type TextKey = (u64, bool);

/// A token that continues a live hypothesis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Continuation {
    pub(super) parent: usize,
    pub(super) id: u32,
    /// The model's log-probability.
    pub(super) log_probability: f32,
    /// The log-probability after all rules.
    pub(super) score: f32,
    /// The sum of the scores including this token.
    pub(super) sum: f64,
}

impl Continuation {
    /// The hypothesis `parent` extended by the token.
    pub(super) fn extend(&self, parent: &PartialHypothesis) -> PartialHypothesis {
        let mut partial = parent.clone();
        partial.push(self.id, self.log_probability, self.score);
        partial
    }
}

/// Orders by descending sum; ties go to the smaller (beam, id).
pub(super) fn order(a: &Continuation, b: &Continuation) -> Ordering {
    b.sum.total_cmp(&a.sum).then_with(|| (a.parent, a.id).cmp(&(b.parent, b.id)))
}

impl Search for BeamSearch<'_> {
    fn width(&self) -> usize {
        self.options.beam_size
    }

    fn is_empty(&self) -> bool {
        self.rules.limits.max == 0
    }

    fn wants_attention(&self) -> bool {
        self.options.coverage_penalty != 0.0
    }

    fn required_scores(&self) -> RequiredScores {
        let required =
            |partial: &PartialHypothesis| self.rules.required_scores(&partial.history, self.n_candidates());
        self.live.iter().map(required).fold(RequiredScores::Top(0), RequiredScores::and)
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        if self.wants_attention() {
            for (row, partial) in self.live.iter_mut().enumerate() {
                accumulate(partial, scores, row, self.rules.source_length)?;
            }
        }
        let continuations = self.continuations(scores)?;
        if continuations.is_empty() {
            // Rules forbid every token: live hypotheses end where they are.
            for partial in std::mem::take(&mut self.live) {
                self.finish(&partial);
            }
            return Ok(Vec::new());
        }
        let length = self.live[0].ids().len() + 1;
        let (mut live, mut next, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, continuation) in continuations.iter().enumerate() {
            let &Continuation { parent, id, score, sum, .. } = continuation;
            let ends = self.rules.ends(id, length);
            let outcome = if ends && rank < self.options.beam_size {
                let partial = continuation.extend(&self.live[parent]);
                self.texts.extend(self.text_key(&partial, true));
                self.finish(&partial);
                CandidateOutcome::Finished
            } else if !ends && live.len() < self.options.beam_size {
                let partial = continuation.extend(&self.live[parent]);
                self.texts.extend(self.text_key(&partial, false));
                live.push(partial);
                next.push(NextRow { parent, token: id });
                CandidateOutcome::Live(live.len() - 1)
            } else {
                CandidateOutcome::Pruned
            };
            traced.push(TracedCandidate { parent, id, log_probability: score, sum, outcome });
        }
        self.live = live;
        if let Some(trace) = &mut self.trace {
            trace.steps.push(traced);
        }
        Ok(if self.is_done(length) { Vec::new() } else { next })
    }
}

impl BeamSearch<'_> {
    /// Number of candidates, 2·B with one end token: at most one continuation of each row ends, so at least B do not.
    fn n_candidates(&self) -> usize {
        self.rules.candidates_per_beam() * self.options.beam_size
    }

    /// The best continuations.
    fn continuations(&self, scores: &Scores<'_>) -> Result<Vec<Continuation>> {
        let n_candidates = self.n_candidates();
        let mut all = Vec::new();
        for (parent, partial) in self.live.iter().enumerate() {
            let best = self.rules.best(&partial.history, scores, parent, n_candidates)?;
            all.extend(best.into_iter().map(|candidate| Continuation {
                parent,
                id: candidate.id,
                log_probability: scores.log_probability(parent, candidate),
                score: candidate.score,
                sum: partial.sum + f64::from(candidate.score),
            }));
        }
        all.sort_by(order);
        self.remove_duplicates(&mut all);
        all.truncate(n_candidates);
        Ok(all)
    }

    /// Removes continuations whose text an earlier hypothesis, or an earlier continuation of this step, already has.
    fn remove_duplicates(&self, continuations: &mut Vec<Continuation>) {
        let Some(forms) = &self.options.surface_forms else { return };
        let hashes: Vec<u64> = self.live.iter().map(|partial| forms.hash(partial.ids())).collect();
        let length = self.live[0].ids().len() + 1;
        let mut now = HashSet::new();
        continuations.retain(|&Continuation { parent, id, .. }| {
            let key = (forms.extend(hashes[parent], id), self.rules.ends(id, length));
            !self.texts.contains(&key) && now.insert(key)
        });
    }

    /// The text of a hypothesis; `None` without surface forms.
    fn text_key(&self, partial: &PartialHypothesis, is_complete: bool) -> Option<TextKey> {
        Some((self.options.surface_forms.as_ref()?.hash(partial.ids()), is_complete))
    }

    fn finish(&mut self, partial: &PartialHypothesis) {
        self.finished.add(self.options.finish(partial, &self.rules));
    }

    fn is_done(&self, length: usize) -> bool {
        let Some(best) = self.live.first() else { return true };
        let [length, max_length] =
            [length, self.rules.limits.max].map(|length| self.rules.scored_length(length));
        let frontier = Frontier { best_sum: best.sum, length, max_length };
        self.options.early_stopping.should_stop(&self.finished, frontier, self.options.length_penalty)
    }
}
