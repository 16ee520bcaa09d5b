//! Sampling: each token is drawn from the model's distribution, optionally with its tail truncated.
//!
//! p(y) ∝ exp(logit / T) with temperature T, over the k most probable tokens (top-k: Fan, Lewis & Dauphin 2018), of these
//! the fewest whose total probability reaches p (nucleus sampling: Holtzman et al. 2020), of these the ones with at least
//! min_p times the highest probability (Nguyen et al. 2024). Rules modify the logits first, as in Hugging Face's
//! `generate`.
//!
//! A random number is a pure function of (seed, source, sample, step). A source is identified by its ids, so its samples
//! depend neither on its batch nor on its position in a file; for other samples, change the seed or draw more.

use polyhead_random::Random;
use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::partial::PartialHypothesis;
use super::rows::{NextRow, Scores, Search, run};
use super::rules::SentenceRules;
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::{Error, Result};

/// Options of sampling.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleOptions {
    /// Start, end, lengths and rules; see [`DecodeOptions`].
    pub decode: DecodeOptions,
    /// The temperature T that divides the logits; default: 1. At 0 the most probable token is taken.
    pub temperature: f32,
    /// Number of most probable tokens to sample from; default: 0, all.
    pub top_k: usize,
    /// Total probability of the most probable tokens to sample from (the nucleus); default: 1, all.
    pub top_p: f32,
    /// Minimum probability relative to the most probable token; default: 0, all tokens.
    pub min_p: f32,
    /// Number of samples per source; default: 1.
    pub n_samples: usize,
    /// Random seed; default: 0.
    pub seed: u64,
}

impl Default for SampleOptions {
    fn default() -> Self {
        let decode = DecodeOptions::default();
        Self { decode, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, n_samples: 1, seed: 0 }
    }
}

impl SampleOptions {
    pub(super) fn check(&self) -> Result<()> {
        let invalid = |name, value, expected| {
            Err(Error::Request { message: format!("{name} is {value}, expected {expected}") })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return invalid("the temperature", self.temperature, "a number not below 0");
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return invalid("top_p", self.top_p, "a probability from 0 to 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return invalid("min_p", self.min_p, "a ratio from 0 to 1");
        }
        Ok(())
    }

    /// Draws a token by a uniform number in [0, 1); `None` if all are forbidden.
    pub(super) fn draw(&self, logits: &[f32], uniform: f64) -> Option<u32> {
        let candidates = self.candidates(logits);
        let total: f64 = candidates.iter().map(|&(_, probability)| f64::from(probability)).sum();
        let mut rest = uniform * total;
        for &(id, probability) in &candidates {
            rest -= f64::from(probability);
            if rest < 0.0 {
                return Some(id);
            }
        }
        // Rounding can leave a remainder after the last.
        candidates.last().map(|&(id, _)| id)
    }

    /// The tokens that can be drawn, with probabilities that need not sum to 1.
    fn candidates(&self, logits: &[f32]) -> Vec<(u32, f32)> {
        let k = match (self.temperature == 0.0, self.top_k) {
            (true, _) => 1,
            (false, 0) => logits.len(),
            (false, k) => k,
        };
        let most_probable = if k < logits.len() { top(logits, k) } else { allowed(logits) };
        let mut candidates = self.probabilities(&most_probable);
        if self.top_p < 1.0 {
            candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut sum = 0.0;
            let reached = |&(_, probability): &(u32, f32)| {
                let before = sum;
                sum += f64::from(probability);
                before < f64::from(self.top_p)
            };
            let n = candidates.iter().copied().take_while(reached).count();
            candidates.truncate(n.max(1));
        }
        let highest = candidates.iter().fold(0.0, |highest: f32, &(_, probability)| highest.max(probability));
        candidates.retain(|&(_, probability)| probability >= self.min_p * highest);
        candidates
    }

    fn probabilities(&self, candidates: &[Candidate]) -> Vec<(u32, f32)> {
        let highest =
            candidates.iter().fold(f32::NEG_INFINITY, |highest, candidate| highest.max(candidate.score));
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        // Subtracting the maximum first lets a low temperature overflow to −∞ only.
        let scaled = candidates.iter().map(|candidate| (candidate.score - highest) / temperature).collect();
        let scaled = Var::constant(Tensor::new(&[1, candidates.len()], scaled));
        let probabilities = softmax(&Tape::inference(), &scaled);
        candidates.iter().zip(probabilities.value().data()).map(|(candidate, &p)| (candidate.id, p)).collect()
    }
}

/// All tokens that are not forbidden.
fn allowed(logits: &[f32]) -> Vec<Candidate> {
    let all = logits.iter().zip(0..).map(|(&score, id)| Candidate { id, score });
    all.filter(|candidate| candidate.score > f32::NEG_INFINITY).collect()
}

/// Samples of each source, in the order in which they were drawn, possibly with duplicates.
///
/// # Errors
/// If a source is invalid, or the options are.
pub fn sample<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &SampleOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    options.check()?;
    let start_id = options.decode.start_id;
    let mut searches: Vec<SampleSearch<'_>> = SentenceRules::all(&options.decode, sources)?
        .into_iter()
        .zip(sources)
        .map(|(rules, source)| SampleSearch {
            rules,
            options,
            source: key(source),
            partials: vec![PartialHypothesis::new(start_id); options.n_samples],
            rows: vec![(0..options.n_samples).collect()],
        })
        .collect();
    run(model, sources, start_id, &mut searches)?;
    Ok(searches
        .iter()
        .map(|search| search.partials.iter().map(PartialHypothesis::finish).collect())
        .collect())
}

/// A hash of a source: its ids folded together by Philox.
pub(super) fn key(source: &[u32]) -> u64 {
    source.iter().fold(source.len() as u64, |key, &id| Random::new(key).u64(u64::from(id)))
}

struct SampleSearch<'a> {
    rules: SentenceRules<'a>,
    options: &'a SampleOptions,
    source: u64,
    /// One hypothesis per sample.
    partials: Vec<PartialHypothesis>,
    /// The samples that extend each row: all share one row at the first step, then each has its own.
    rows: Vec<Vec<usize>>,
}

impl Search for SampleSearch<'_> {
    fn width(&self) -> usize {
        self.options.n_samples
    }

    fn is_empty(&self) -> bool {
        self.rules.limits.max == 0 || self.options.n_samples == 0
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        let mut next = Vec::new();
        let mut rows = Vec::new();
        for (parent, samples) in self.rows.iter().enumerate() {
            for &sample in samples {
                let partial = &mut self.partials[sample];
                let step = partial.ids().len();
                let logits = self.rules.apply(&partial.history, scores.logits(parent))?;
                let random = Random::new(self.options.seed).stream_pair(self.source, sample as u64);
                let Some(id) = self.options.draw(&logits, random.uniform(step as u64)) else { continue };
                let log_probability = scores.log_probabilities(parent)[id as usize];
                let score = if self.rules.is_given(step) { 0.0 } else { log_probability };
                partial.push(id, log_probability, score);
                if !self.rules.ends(id, step + 1) {
                    next.push(NextRow { parent, token: id });
                    rows.push(vec![sample]);
                }
            }
        }
        self.rows = rows;
        Ok(next)
    }
}
