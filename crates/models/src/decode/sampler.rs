//! One sample of one source, drawn token by token: for a caller that steps the model itself, as continuous batching does.
//!
//! The tokens are those of [`super::sample::sample`] with the same options: a random number is a pure function of (seed, source,
//! sample, step).

use polyhead_random::Random;
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::Hypothesis;
use super::partial::PartialHypothesis;
use super::rules::SentenceRules;
use super::sample::{SampleOptions, key};
use crate::Result;

/// A sample that is being drawn.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SampleOptions,
    source: Vec<u32>,
    key: u64,
    sample: u64,
    partial: PartialHypothesis,
}

/// A token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The token.
    pub id: u32,
    /// The model's log-probability of it, before all rules and the temperature.
    pub log_probability: f32,
    /// True if it is one of the end tokens.
    pub is_end: bool,
    /// True if it is the last token, an end token or the one at the maximum length.
    pub is_last: bool,
}

impl Sampler {
    /// The sample of number `sample` of a source; `options.n_samples` is not read.
    ///
    /// # Errors
    /// If the options are out of range.
    pub fn new(options: SampleOptions, source: &[u32], sample: u64) -> Result<Self> {
        options.check()?;
        SentenceRules::all(&options.decode, &[source])?;
        let partial = PartialHypothesis::new(options.decode.start_id);
        Ok(Self { options, source: source.to_vec(), key: key(source), sample, partial })
    }

    /// The tokens so far.
    pub fn ids(&self) -> &[u32] {
        self.partial.ids()
    }

    /// The tokens so far, with the sum of their log-probabilities.
    pub fn hypothesis(&self) -> Hypothesis {
        self.partial.finish()
    }

    /// True if no token may be drawn, since the maximum length is 0.
    pub fn is_empty(&self) -> bool {
        self.options.decode.lengths.of(self.source.len()).max == 0
    }

    /// True if a token is the most probable one by the model alone: temperature 0, and no rules.
    pub fn is_plain_greedy(&self) -> bool {
        let rules = super::rules::Rules {
            other_end_ids: self.options.decode.rules.other_end_ids.clone(),
            includes_source: self.options.decode.rules.includes_source,
            ..super::rules::Rules::default()
        };
        let lengths = &self.options.decode.lengths;
        let has_minimum = lengths.min > 0 || lengths.min_new > 0 || lengths.min_ratio > 0.0;
        self.options.temperature == 0.0 && !has_minimum && self.options.decode.rules == rules
    }

    /// Draws the next token by its logits; `None` if the rules forbid all.
    ///
    /// # Errors
    /// If a rule names a token outside the vocabulary.
    pub fn draw(&mut self, logits: &[f32]) -> Result<Option<Drawn>> {
        let rules = SentenceRules::all(&self.options.decode, &[&self.source])?.remove(0);
        let step = self.partial.ids().len();
        let allowed = rules.apply(&self.partial.history, logits)?;
        let random = Random::new(self.options.seed).stream_pair(self.key, self.sample);
        let Some(id) = self.options.draw(&allowed, random.uniform(step as u64)) else { return Ok(None) };
        let row = Var::constant(Tensor::new(&[1, logits.len()], logits.to_vec()));
        let log_probability = log_softmax(&Tape::inference(), &row).value().data()[id as usize];
        Ok(Some(self.push(id, log_probability)?))
    }

    /// Appends a token that was chosen elsewhere, as by [`Self::is_plain_greedy`] search on a GPU.
    ///
    /// # Errors
    /// If the options are out of range.
    pub fn push(&mut self, id: u32, log_probability: f32) -> Result<Drawn> {
        let rules = SentenceRules::all(&self.options.decode, &[&self.source])?.remove(0);
        self.partial.push(id, log_probability, log_probability);
        let is_last = rules.ends(id, self.partial.ids().len());
        Ok(Drawn { id, log_probability, is_end: rules.is_end(id), is_last })
    }
}
