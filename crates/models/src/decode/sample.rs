//! Sampling: each token is drawn with its probability, or with that of the tokens that are left after cutting the tail.
//!
//! p(y) ∝ exp(logit / T) with temperature T, over the k most probable tokens (Fan, Lewis & Dauphin 2018), of these the
//! fewest whose probabilities reach p (nucleus sampling, Holtzman et al. 2020), of these the ones that have at least
//! min_p times the highest probability (Nguyen et al. 2024). Rules act on logits before all that, as in Hugging Face's
//! `generate`.
//!
//! A number is a pure function of (seed, source, sample, step). A source is known by its ids, so its samples depend
//! neither on its batch nor on its place in a file; to draw other samples, change the seed or draw more.

use polyhead_random::Random;
use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::path::Path;
use super::rows::{Next, Scores, Search, run};
use super::rules::Guide;
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::{Error, Result};

/// What to draw from.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleOptions {
    /// Start, end, lengths and rules; see [`DecodeOptions`].
    pub decode: DecodeOptions,
    /// What logits are divided by; 1. At 0 the most probable token is taken.
    pub temperature: f32,
    /// How many of the most probable tokens are left; 0 for all.
    pub top_k: usize,
    /// The probability that the most probable tokens must reach together, the others are left out; 1 for all.
    pub top_p: f32,
    /// Tokens less probable than this share of the most probable are left out; 0 for none.
    pub min_p: f32,
    /// Samples for each source; 1.
    pub n_samples: usize,
    /// Another seed, other samples; 0.
    pub seed: u64,
}

impl Default for SampleOptions {
    fn default() -> Self {
        let decode = DecodeOptions::default();
        Self { decode, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, n_samples: 1, seed: 0 }
    }
}

impl SampleOptions {
    fn check(&self) -> Result<()> {
        let wrong = |name, number, expected| {
            Err(Error::Request { message: format!("{name} is {number}, expected {expected}") })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return wrong("the temperature", self.temperature, "a number of 0 or more");
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return wrong("top_p", self.top_p, "a probability");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return wrong("min_p", self.min_p, "a share from 0 to 1");
        }
        Ok(())
    }

    /// Draws a token by a number in [0, 1); none if all are forbidden.
    fn draw(&self, logits: &[f32], number: f64) -> Option<u32> {
        let left = self.left(logits);
        let total: f64 = left.iter().map(|&(_, probability)| f64::from(probability)).sum();
        let mut rest = number * total;
        for &(id, probability) in &left {
            rest -= f64::from(probability);
            if rest < 0.0 {
                return Some(id);
            }
        }
        // Rounding can leave a rest after the last.
        left.last().map(|&(id, _)| id)
    }

    /// The tokens that can be drawn, with probabilities that need not sum to 1.
    fn left(&self, logits: &[f32]) -> Vec<(u32, f32)> {
        let k = match (self.temperature == 0.0, self.top_k) {
            (true, _) => 1,
            (false, 0) => logits.len(),
            (false, k) => k,
        };
        let candidates = if k < logits.len() { top(logits, k) } else { possible(logits) };
        let mut left = self.probabilities(&candidates);
        if self.top_p < 1.0 {
            left.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut sum = 0.0;
            let reached = |&(_, probability): &(u32, f32)| {
                let before = sum;
                sum += f64::from(probability);
                before < f64::from(self.top_p)
            };
            let n = left.iter().copied().take_while(reached).count();
            left.truncate(n.max(1));
        }
        let highest = left.iter().fold(0.0, |highest: f32, &(_, probability)| highest.max(probability));
        left.retain(|&(_, probability)| probability >= self.min_p * highest);
        left
    }

    fn probabilities(&self, candidates: &[Candidate]) -> Vec<(u32, f32)> {
        let highest =
            candidates.iter().fold(f32::NEG_INFINITY, |highest, candidate| highest.max(candidate.score));
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        // Taken off first, so that a low temperature overflows downwards only.
        let scaled = candidates.iter().map(|candidate| (candidate.score - highest) / temperature).collect();
        let scaled = Var::constant(Tensor::new(&[1, candidates.len()], scaled));
        let probabilities = softmax(&Tape::inference(), &scaled);
        candidates.iter().zip(probabilities.value().data()).map(|(candidate, &p)| (candidate.id, p)).collect()
    }
}

/// All tokens that are not forbidden.
fn possible(logits: &[f32]) -> Vec<Candidate> {
    let all = logits.iter().zip(0..).map(|(&score, id)| Candidate { id, score });
    all.filter(|candidate| candidate.score > f32::NEG_INFINITY).collect()
}

/// Samples of each source, in the order in which they were drawn; they need not be distinct.
///
/// # Errors
/// If a source cannot be read, or the options make no sense.
pub fn sample<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &SampleOptions,
) -> Result<Vec<Vec<Hypothesis>>> {
    options.check()?;
    let start_id = options.decode.start_id;
    let mut searches: Vec<SampleSearch<'_>> = Guide::all(&options.decode, sources)?
        .into_iter()
        .zip(sources)
        .map(|(guide, source)| SampleSearch {
            guide,
            options,
            source: key(source),
            paths: vec![Path::new(start_id); options.n_samples],
            rows: vec![(0..options.n_samples).collect()],
        })
        .collect();
    run(model, sources, start_id, &mut searches)?;
    Ok(searches.iter().map(|search| search.paths.iter().map(Path::finish).collect()).collect())
}

/// A number that stands for a source: its ids folded together by Philox.
fn key(source: &[u32]) -> u64 {
    source.iter().fold(source.len() as u64, |key, &id| Random::new(key).u64(u64::from(id)))
}

struct SampleSearch<'a> {
    guide: Guide<'a>,
    options: &'a SampleOptions,
    source: u64,
    /// One for each sample.
    paths: Vec<Path>,
    /// The samples that go on from each row: all from the first at first, then one from each.
    rows: Vec<Vec<usize>>,
}

impl Search for SampleSearch<'_> {
    fn width(&self) -> usize {
        self.options.n_samples
    }

    fn is_empty(&self) -> bool {
        self.guide.limits.max == 0 || self.options.n_samples == 0
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        let mut next = Vec::new();
        let mut rows = Vec::new();
        for (parent, samples) in self.rows.iter().enumerate() {
            for &sample in samples {
                let path = &mut self.paths[sample];
                let step = path.ids().len();
                let edited = self.guide.edited(&path.history, scores.logits(parent))?;
                let random = Random::new(self.options.seed).stream_pair(self.source, sample as u64);
                let Some(id) = self.options.draw(&edited, random.uniform(step as u64)) else { continue };
                let log_probability = scores.log_probabilities(parent)[id as usize];
                path.push(id, log_probability, log_probability);
                if !self.guide.ends(id, step + 1) {
                    next.push(Next { parent, token: id });
                    rows.push(vec![sample]);
                }
            }
        }
        self.rows = rows;
        Ok(next)
    }
}
