//! Options of generation and their checks.

use crate::{Error, Result};

/// New tokens where neither the caller nor the model says how many.
pub const MAX_NEW_TOKENS: usize = 256;

/// Options of generation.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateOptions {
    /// Maximum number of new tokens, end token included; default: as the model's settings say, or [`MAX_NEW_TOKENS`].
    pub max_new_tokens: Option<usize>,
    /// Number of new tokens before an end token; default: 0.
    pub min_new_tokens: usize,
    /// Number of lines to generate, the rest of the prompt's line included: the end token ends a line, and a line break in the
    /// text does. Default: none, the end token ends the text.
    pub lines: Option<usize>,
    /// Texts before which the generated text ends; default: none.
    pub stop: Vec<String>,
    /// Temperature of sampling; default: 1. At 0 the most probable token is taken.
    pub temperature: f32,
    /// Number of most probable tokens to sample from; default: 0, all.
    pub top_k: usize,
    /// Total probability of the most probable tokens to sample from; default: 1, all.
    pub top_p: f32,
    /// Minimum probability relative to the most probable token; default: 0, all tokens.
    pub min_p: f32,
    /// Divides the logits of tokens that occur in the prompt or the text if they are positive, multiplies them if negative;
    /// default: 1, no penalty.
    pub repetition_penalty: f32,
    /// No sequence of this many tokens occurs twice, prompt included; default: 0, no such rule.
    pub no_repeat_ngram: usize,
    /// Number of most probable tokens to report with each generated one, by the model alone; default: 0.
    pub alternatives: usize,
    /// Number of samples of each prompt, or of hypotheses that beam search returns; default: 1.
    pub n_samples: usize,
    /// Beam size; default: 1. A larger one searches instead of sampling.
    pub beam_size: usize,
    /// Random seed; default: 0.
    pub seed: u64,
    /// The treatment of a prompt that is longer than the model's context; default: it is refused.
    pub overflow: Overflow,
    /// What is kept for later prompts that begin alike; default: prefixes that prompts share.
    pub reuse: Reuse,
}

/// The treatment of a prompt that is longer than the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// It is refused.
    #[default]
    Refuse,
    /// Its oldest tokens are dropped, so that the new tokens fit, or half of the context.
    Slide,
}

/// What is kept for later prompts that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// Prefixes that prompts share.
    #[default]
    Shared,
    /// Also the whole text with its prompt, with which the next turn of a chat begins.
    Text,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_new_tokens: None,
            min_new_tokens: 0,
            lines: None,
            stop: Vec::new(),
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            no_repeat_ngram: 0,
            alternatives: 0,
            n_samples: 1,
            beam_size: 1,
            seed: 0,
            overflow: Overflow::default(),
            reuse: Reuse::default(),
        }
    }
}

impl GenerateOptions {
    /// Checks that the options are in range and fit together.
    ///
    /// # Errors
    /// If they are not; the message says what was found and expected.
    pub fn check(&self) -> Result<()> {
        let range = |name: &str, value: f32, expected: &str| {
            Err(Error::request(
                format!("{name} is {value}, expected {expected}"),
                format!("leave out {name}, or correct it"),
            ))
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return range("the temperature", self.temperature, "a number not below 0");
        }
        if !(0.0..=1.0).contains(&self.top_p) || self.top_p == 0.0 {
            return range("top-p", self.top_p, "a probability above 0, at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return range("min-p", self.min_p, "a ratio from 0 to 1");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return range("the repetition penalty", self.repetition_penalty, "a positive number; 1 is none");
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::request(
                "an empty stop string, expected some text",
                "every text would end before it began; leave the stop string out",
            ));
        }
        if self.max_new_tokens == Some(0)
            || self.n_samples == 0
            || self.beam_size == 0
            || self.lines == Some(0)
        {
            let message = "0 new tokens, samples, lines or beams, expected 1 or more";
            return Err(Error::request(message, "raise the number, or leave the option out"));
        }
        self.check_search()
    }

    /// Checks the options that exclude each other.
    fn check_search(&self) -> Result<()> {
        if self.beam_size > 1 && self.n_samples > self.beam_size {
            let message =
                format!("{} texts of {} beams, expected at most as many", self.n_samples, self.beam_size);
            return Err(Error::request(message, "raise the beam size, or ask for fewer texts"));
        }
        if self.beam_size > 1 && !self.stop.is_empty() {
            let message = "stop strings in beam search, expected one of the two";
            return Err(Error::request(
                message,
                "beams end at the end token only; leave out the stop strings, or the beam",
            ));
        }
        if self.beam_size == 1 && self.n_samples > 1 && self.temperature == 0.0 {
            let message =
                format!("{} samples at temperature 0, expected a temperature above 0", self.n_samples);
            let hint = "the most probable tokens are the same each time, so all would be equal: ask for one, raise the temperature, or search with a beam";
            return Err(Error::request(message, hint));
        }
        Ok(())
    }
}
