//! The search for hypotheses: a folder's generation settings overridden by the options of a request, over batches.

mod batch;
mod distinct;
mod forced;
pub mod generation;
pub(crate) mod repetition;
mod watched;

use std::sync::Arc;

use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::constrained::{Constraints, constrained};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::surface_forms::SurfaceForms;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken};
use polyhead_text::tokenizer::UnknownWords;

pub(crate) use self::forced::ForcedTokens;
use self::generation::Generation;
use self::repetition::{NO_REPEAT_NGRAM, REPETITION_PENALTY};
use self::watched::Watched;
use crate::options::{LengthFormula, Mode, Sampling, TranslateOptions};
use crate::pipeline::Pipeline;
use crate::segment::{LoopOutcome, Segment};
use crate::{Error, Result};

/// Widest beam; each hypothesis needs memory for all its tokens.
const MAX_BEAMS: usize = 1000;

/// The hypotheses of each sentence of a batch.
pub(crate) type Hypotheses = Vec<Vec<Hypothesis>>;

/// The settings of a search.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    beam: BeamOptions,
    /// Beam size of a search for one translation.
    width_for_one: usize,
    sampling: Option<Sampling>,
}

/// The ids of a source, and those that its translation must have.
#[derive(Debug, Clone)]
pub(crate) struct DecoderInput {
    /// Tag, sentence and end token.
    pub(crate) source: Vec<u32>,
    /// The words of the sentence that the vocabulary lacks, if the model copies them.
    pub(crate) words: UnknownWords,
    pub(crate) forced: ForcedTokens,
}

impl Search {
    /// The folder's settings, overridden by the options; translations have at most `max_len` tokens.
    pub(crate) fn new(generation: &Generation, options: &TranslateOptions, max_len: usize) -> Result<Self> {
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
        if options.sampling.is_some() && !options.lexical.is_empty() {
            let message = "samples with lexical constraints, expected one of the two";
            return Err(Error::request(message, "leave out sampling: constraints need a beam search"));
        }
        if beam_size > MAX_BEAMS {
            let message = format!("{beam_size} beams, expected at most {MAX_BEAMS}");
            return Err(Error::request(message, "more than ten beams rarely help"));
        }
        let max = options.max_length.unwrap_or(generation.max_length);
        if max > max_len {
            let message =
                format!("a maximum length of {max}, expected at most {max_len}, the positions of the model");
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
            no_repeat_ngram: options.no_repeat_ngram.unwrap_or(generation.rules.no_repeat_ngram),
            repetition_penalty: options.repetition_penalty.unwrap_or(generation.rules.repetition_penalty),
            ..generation.rules.clone()
        };
        let &Generation { start_id, end_id, early_stopping, min_length: min, min_new, .. } = generation;
        let lengths = if generation.is_max_new && options.max_length.is_none() {
            Lengths { min, min_new, max: max_len, max_new: Some(max), ..Lengths::default() }
        } else {
            Lengths { min, min_new, max, ..Lengths::default() }
        };
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

    /// The search with rules against repetition.
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

    /// The options of its beam search.
    pub(crate) fn into_beam(self) -> BeamOptions {
        self.beam
    }

    /// The search with all hypotheses of the beam as result; samples are as many as before.
    pub(crate) fn all_beams(&self) -> Self {
        let mut search = self.clone();
        if search.sampling.is_none() {
            search.beam.top_beams = search.beam.beam_size;
        }
        search
    }

    /// The search with the beam of a search for one translation.
    pub(crate) fn as_for_one(&self) -> Self {
        let mut search = self.clone();
        search.beam.beam_size = self.width_for_one;
        search.all_beams()
    }

    /// True if its beam is wider than for one translation.
    pub(crate) fn is_widened(&self) -> bool {
        self.beam.beam_size > self.width_for_one
    }

    /// The search for hypotheses of different texts, compared by `spellings`, with `times` as many beams.
    pub(crate) fn with_distinct_texts(&self, spellings: Option<Arc<SurfaceForms>>, times: usize) -> Self {
        let mut search = self.clone();
        search.beam.surface_forms = spellings;
        search.beam.beam_size *= times;
        search.all_beams()
    }

    /// Hypotheses of each sentence that are decoded at once.
    pub(crate) fn width(&self) -> usize {
        if self.sampling.is_some() { self.beam.top_beams } else { self.beam.beam_size }
    }

    /// True if tokens are sampled.
    pub(crate) fn is_sampling(&self) -> bool {
        self.sampling.is_some()
    }

    /// Maximum number of tokens of a translation that begins with a prefix of `prefix_length` tokens.
    pub(crate) fn max_length(&self, prefix_length: usize) -> usize {
        self.beam.decode.lengths.with_prefix(0, prefix_length).max
    }

    /// The hypotheses of each input, best first; [`Error::Cancelled`] as soon as `is_wanted`, which is called before every
    /// step, returns false.
    pub(crate) fn run_while<M: NextToken>(
        &self,
        model: &M,
        inputs: &[&DecoderInput],
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Hypotheses> {
        let model = Watched::new(model, is_wanted);
        self.run(&model, inputs).map_err(|error| if model.is_cancelled() { Error::Cancelled } else { error })
    }

    /// The hypotheses of each input, best first.
    fn run<M: NextToken>(&self, model: &M, inputs: &[&DecoderInput]) -> Result<Hypotheses> {
        let sources: Vec<&[u32]> = inputs.iter().map(|input| input.source.as_slice()).collect();
        let mut options = self.beam.clone();
        if inputs.iter().any(|input| !input.forced.prefix.is_empty()) {
            options.decode.rules.prefixes = inputs.iter().map(|input| input.forced.prefix.clone()).collect();
        }
        if let Some(Sampling { temperature, top_k, top_p, min_p, seed }) = self.sampling {
            let (decode, n_samples) = (options.decode, options.top_beams);
            let options = SampleOptions { decode, temperature, top_k, top_p, min_p, n_samples, seed };
            let found = sample(model, &sources, &options)?;
            return Ok(found
                .into_iter()
                .zip(inputs)
                .map(|(found, input)| self.ranked(found, input))
                .collect());
        }
        if inputs.iter().any(|input| !input.forced.constraints.is_empty()) {
            let all: Vec<Constraints> = inputs.iter().map(|input| input.forced.constraints.clone()).collect();
            return Ok(constrained(model, &sources, &all, &options)?);
        }
        if options.beam_size == 1 {
            let found = greedy(model, &sources, &options.decode)?;
            let found = found.into_iter().zip(inputs);
            return Ok(found.map(|(hypothesis, input)| self.ranked(vec![hypothesis], input)).collect());
        }
        Ok(beam(model, &sources, &options)?)
    }

    /// Hypotheses with the scores of a beam search, best first; equals stay in order. The prefix does not count.
    fn ranked(&self, mut hypotheses: Vec<Hypothesis>, input: &DecoderInput) -> Vec<Hypothesis> {
        for hypothesis in &mut hypotheses {
            let length = hypothesis.ids.len().saturating_sub(input.forced.prefix.len()).max(1);
            hypothesis.score = self.beam.length_penalty.score(hypothesis.score, length);
        }
        hypotheses.sort_by(|a, b| b.score.total_cmp(&a.score));
        hypotheses
    }
}

impl Pipeline<'_> {
    /// Searches for the hypotheses of segments; in guarded mode loops are decoded again. A segment whose placeholders no
    /// hypothesis carries gets none.
    pub(crate) fn search(&self, segments: &mut [&mut Segment<'_>]) -> Result<()> {
        self.decode(segments, &self.search)?;
        if self.options.mode == Mode::Guarded {
            self.decode_loops_again(segments)?;
        }
        Ok(())
    }

    fn decode(&self, segments: &mut [&mut Segment<'_>], search: &Search) -> Result<()> {
        let inputs: Vec<DecoderInput> = segments.iter().filter_map(|segment| segment.input.clone()).collect();
        let is_chosen =
            self.has_distinct_texts() || segments.iter().any(|segment| segment.n_placeholders() > 0);
        let found = match (self.has_distinct_texts(), is_chosen) {
            (true, _) => self.hypotheses(&inputs, &search.as_for_one())?,
            (false, true) => self.hypotheses(&inputs, &search.all_beams())?,
            (false, false) => self.hypotheses(&inputs, search)?,
        };
        for (segment, found) in segments.iter_mut().filter(|segment| segment.input.is_some()).zip(found) {
            if found.is_empty() && !segment.forced().constraints.is_empty() {
                return Err(self.unmet(segment.sentence.text));
            }
            segment.hypotheses = if is_chosen { self.chosen(segment, found)? } else { found };
        }
        if self.has_distinct_texts() {
            self.find_others(segments, search)?;
        }
        for segment in segments {
            segment.hypotheses.truncate(self.options.n_best);
        }
        Ok(())
    }

    /// The hypotheses of each input, best first.
    fn hypotheses(&self, inputs: &[DecoderInput], search: &Search) -> Result<Vec<Vec<Hypothesis>>> {
        batch::decode(self.engine, search, inputs, self.options.batch_tokens, self.is_wanted)
    }

    /// Decodes loops again with rules against repetition; the less severe result stays.
    fn decode_loops_again(&self, segments: &mut [&mut Segment<'_>]) -> Result<()> {
        // Halves of a segment come from decoding that found no end already.
        // Rules against repetition might forbid constraints.
        let is_looping = |segment: &&mut Segment<'_>| {
            segment.n_halvings == 0 && segment.severity() > 0 && segment.forced().constraints.is_empty()
        };
        let mut looping: Vec<&mut Segment<'_>> =
            segments.iter_mut().map(|segment| &mut **segment).filter(is_looping).collect();
        let before: Vec<(usize, Vec<Hypothesis>)> = looping
            .iter_mut()
            .map(|segment| (segment.severity(), std::mem::take(&mut segment.hypotheses)))
            .collect();
        let search = self.search.against_repetition(NO_REPEAT_NGRAM, REPETITION_PENALTY);
        self.decode(&mut looping, &search)?;
        for (segment, (severity, hypotheses)) in looping.into_iter().zip(before) {
            let again = if segment.hypotheses.is_empty() { severity } else { segment.severity() };
            segment.loop_outcome = Some(if again == 0 { LoopOutcome::Cured } else { LoopOutcome::Left });
            if again >= severity {
                segment.hypotheses = hypotheses;
            }
        }
        Ok(())
    }
}
