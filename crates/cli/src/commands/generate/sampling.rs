//! Options of length and sampling; what is not given is as the model's settings say.

use clap::{Args, ValueEnum};
use polyhead_engine::generate::{GenerateOptions, Overflow, Reuse};

use crate::decode_options::positive;
use crate::option_help::SEED;

/// Length, sampling and search.
#[derive(Debug, Args)]
pub(super) struct SamplingOptions {
    /// Maximum number of new tokens [default: the model's, or 256]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Length")]
    max_new_tokens: Option<usize>,
    /// Number of new tokens before the end token [default: the model's, or 0]
    #[arg(long, value_name = "N", help_heading = "Length")]
    min_new_tokens: Option<usize>,
    /// Number of lines to generate, the rest of the prompt's line included; the end token ends a line
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Length")]
    lines: Option<usize>,
    /// End before this text; may be given several times
    #[arg(long, value_name = "TEXT", value_parser = some_text, help_heading = "Length")]
    stop: Vec<String>,
    /// A prompt that is longer than the context
    #[arg(long, value_enum, default_value_t = OverflowChoice::Refuse, help_heading = "Length")]
    overflow: OverflowChoice,
    /// Temperature of sampling; 0 takes the most probable token [default: the model's, or 1]
    #[arg(long, value_name = "T", help_heading = "Sampling")]
    temperature: Option<f32>,
    /// Sample from the K most probable tokens; 0 for all [default: the model's, or 0]
    #[arg(long, value_name = "K", help_heading = "Sampling")]
    top_k: Option<usize>,
    /// Sample from the most probable tokens of this total probability [default: the model's, or 1]
    #[arg(long, value_name = "P", help_heading = "Sampling")]
    top_p: Option<f32>,
    /// Exclude tokens below P times the probability of the most probable one [default: the model's, or 0]
    #[arg(long, value_name = "P", help_heading = "Sampling")]
    min_p: Option<f32>,
    /// Repetition penalty: divides the logits of tokens of the prompt and the text; 1 is off [default: the model's, or 1]
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    repetition_penalty: Option<f32>,
    /// Forbid repeated n-grams of N tokens, prompt included; 0 allows all [default: the model's, or 0]
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    no_repeat_ngram: Option<usize>,
    /// Number of texts for each prompt: samples, or the best of --beam
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Sampling")]
    n: Option<usize>,
    /// Beam size; more than 1 searches instead of sampling [default: the model's, or 1]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Sampling")]
    beam: Option<usize>,
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling", help = SEED)]
    seed: u64,
}

/// The treatment of a prompt that is longer than the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverflowChoice {
    /// Refuse it
    Refuse,
    /// Drop its oldest tokens, in a chat its oldest turns
    Slide,
}

impl SamplingOptions {
    /// True if several texts of a prompt, or a search, are asked for.
    pub(super) fn wants_several(&self) -> bool {
        self.n.is_some_and(|n| n > 1) || self.beam.is_some_and(|beam| beam > 1)
    }

    /// These options over those of the model.
    pub(super) fn over(&self, model: GenerateOptions) -> GenerateOptions {
        let stop = if self.stop.is_empty() { model.stop } else { self.stop.clone() };
        // Options of sampling ask for sampling, also where the model's settings switch it off.
        let is_sampled = self.temperature.is_none()
            && model.temperature == 0.0
            && [self.top_p.is_some(), self.top_k.is_some(), self.min_p.is_some()].contains(&true);
        let temperature = if is_sampled { 1.0 } else { model.temperature };
        // A search that the model's settings ask for gives way to sampling.
        let samples = self.temperature.is_some_and(|temperature| temperature > 0.0);
        let beam_size = self.beam.unwrap_or(if samples { 1 } else { model.beam_size });
        GenerateOptions {
            max_new_tokens: self.max_new_tokens.or(model.max_new_tokens),
            min_new_tokens: self.min_new_tokens.unwrap_or(model.min_new_tokens),
            lines: self.lines,
            stop,
            temperature: self.temperature.unwrap_or(temperature),
            top_k: self.top_k.unwrap_or(model.top_k),
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            no_repeat_ngram: self.no_repeat_ngram.unwrap_or(model.no_repeat_ngram),
            n_samples: self.n.unwrap_or(model.n_samples),
            beam_size,
            seed: self.seed,
            overflow: match self.overflow {
                OverflowChoice::Refuse => Overflow::Refuse,
                OverflowChoice::Slide => Overflow::Slide,
            },
            reuse: Reuse::Shared,
            alternatives: 0,
        }
    }
}

/// Parses a text that is not empty.
fn some_text(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("expected some text: every text would end before it began".into())
    } else {
        Ok(text.into())
    }
}
