//! One way of decoding, made of a folder's settings and of what is asked for.

use std::sync::Arc;

use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::spelling::Spellings;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken};

use crate::generation::Generation;
use crate::options::{LengthFormula, Sampling, TranslateOptions};
use crate::{Error, Result};

/// Most hypotheses followed for a sentence; each needs memory for all that was written.
const MAX_BEAMS: usize = 1000;

/// Everything that decoding needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    beam: BeamOptions,
    /// How many hypotheses would be followed if one translation was asked for.
    width_for_one: usize,
    sampling: Option<Sampling>,
}

/// What is decoded: a source, and what its translation begins with.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) source: Vec<u32>,
    pub(crate) prefix: Vec<u32>,
}

impl Search {
    /// The folder's settings, changed by what is asked for.
    pub(crate) fn new(generation: &Generation, options: &TranslateOptions, most: usize) -> Result<Self> {
        let n_best = options.n_best;
        let beam_size = options.beam_size.unwrap_or_else(|| match options.sampling {
            Some(_) => 1,
            None => generation.beam_size.max(n_best),
        });
        if n_best == 0 || beam_size == 0 || (options.sampling.is_none() && n_best > beam_size) {
            let message = format!(
                "{n_best} best of {beam_size} beams, expected 1 or more and at most as many as beams"
            );
            return Err(Error::request(message, "widen the beam or ask for fewer translations"));
        }
        if beam_size > MAX_BEAMS {
            let message = format!("{beam_size} beams, expected at most {MAX_BEAMS}");
            return Err(Error::request(message, "more than ten beams rarely help"));
        }
        let max = options.max_length.unwrap_or(generation.max_length);
        if max > most {
            let message =
                format!("a maximum length of {max}, expected at most {most}, the positions of the model");
            return Err(Error::request(message, "long texts are translated sentence by sentence anyway"));
        }
        if max == 0 {
            return Err(Error::request(
                "a maximum length of 0, expected 1 or more",
                "leave it out for the model's own",
            ));
        }
        let alpha = options.length_penalty.unwrap_or(generation.length_penalty);
        if !alpha.is_finite() {
            return Err(Error::request(
                format!("a length penalty of {alpha}, expected a number"),
                "1 is usual",
            ));
        }
        let rules = Rules {
            suppressed: generation.suppressed.clone(),
            no_repeat_ngram: options.no_repeat_ngram.unwrap_or(generation.no_repeat_ngram),
            repetition_penalty: options.repetition_penalty.unwrap_or(generation.repetition_penalty),
            prefixes: Vec::new(),
            at_limit: generation.at_limit,
        };
        let lengths = Lengths { min: generation.min_length, max, ..Lengths::default() };
        let &Generation { start_id, end_id, early_stopping, .. } = generation;
        let length_penalty = match options.length_formula {
            LengthFormula::Power => LengthPenalty::Power(alpha),
            LengthFormula::Wu => LengthPenalty::Wu(alpha),
        };
        let decode = DecodeOptions { start_id, end_id, lengths, rules };
        let top_beams = n_best;
        let beam = BeamOptions {
            decode,
            beam_size,
            top_beams,
            length_penalty,
            early_stopping,
            ..BeamOptions::default()
        };
        let width_for_one = options.beam_size.unwrap_or(generation.beam_size);
        Ok(Self { beam, width_for_one, sampling: options.sampling })
    }

    /// The same with rules against repetition.
    pub(crate) fn against_repetition(&self, no_repeat_ngram: usize, repetition_penalty: f32) -> Self {
        let mut search = self.clone();
        let rules = &mut search.beam.decode.rules;
        rules.no_repeat_ngram = match rules.no_repeat_ngram {
            0 => no_repeat_ngram,
            n => n.min(no_repeat_ngram),
        };
        rules.repetition_penalty = rules.repetition_penalty.max(repetition_penalty);
        search
    }

    /// What a beam search needs to know.
    pub(crate) fn into_beam(self) -> BeamOptions {
        self.beam
    }

    /// The same with all that was followed as result; samples are as many as before.
    pub(crate) fn all_beams(&self) -> Self {
        let mut search = self.clone();
        if search.sampling.is_none() {
            search.beam.top_beams = search.beam.beam_size;
        }
        search
    }

    /// The same as wide as it would be for one translation.
    pub(crate) fn as_for_one(&self) -> Self {
        let mut search = self.clone();
        search.beam.beam_size = self.width_for_one;
        search.all_beams()
    }

    /// Whether it follows more than it would for one translation.
    pub(crate) fn is_widened(&self) -> bool {
        self.beam.beam_size > self.width_for_one
    }

    /// The same for texts that differ in more than their pieces, where `spellings` tell them.
    pub(crate) fn past_doubles(&self, spellings: Option<Arc<Spellings>>) -> Self {
        let mut search = self.clone();
        search.beam.spellings = spellings;
        search.all_beams()
    }

    /// Hypotheses followed for each sentence.
    pub(crate) fn width(&self) -> usize {
        if self.sampling.is_some() { self.beam.top_beams } else { self.beam.beam_size }
    }

    /// Most tokens of a translation.
    pub(crate) fn max_length(&self) -> usize {
        self.beam.decode.lengths.max
    }

    /// The hypotheses of each job, best first.
    pub(crate) fn run<M: NextToken>(&self, model: &M, jobs: &[&Job]) -> Result<Vec<Vec<Hypothesis>>> {
        let sources: Vec<&[u32]> = jobs.iter().map(|job| job.source.as_slice()).collect();
        let mut options = self.beam.clone();
        if jobs.iter().any(|job| !job.prefix.is_empty()) {
            options.decode.rules.prefixes = jobs.iter().map(|job| job.prefix.clone()).collect();
        }
        if let Some(Sampling { temperature, top_k, top_p, min_p, seed }) = self.sampling {
            let (decode, n_samples) = (options.decode, options.top_beams);
            let options = SampleOptions { decode, temperature, top_k, top_p, min_p, n_samples, seed };
            let found = sample(model, &sources, &options)?;
            return Ok(found.into_iter().map(|samples| self.ranked(samples)).collect());
        }
        if options.beam_size == 1 {
            let found = greedy(model, &sources, &options.decode)?;
            return Ok(found.into_iter().map(|hypothesis| self.ranked(vec![hypothesis])).collect());
        }
        Ok(beam(model, &sources, &options)?)
    }

    /// Scores as beams have them, best first; equals stay in order.
    fn ranked(&self, mut hypotheses: Vec<Hypothesis>) -> Vec<Hypothesis> {
        for hypothesis in &mut hypotheses {
            let length = hypothesis.ids.len().max(1);
            hypothesis.score = self.beam.length_penalty.score(hypothesis.log_probability, length);
        }
        hypotheses.sort_by(|a, b| b.score.total_cmp(&a.score));
        hypotheses
    }
}
