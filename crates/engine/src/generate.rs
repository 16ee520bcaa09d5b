//! Text generation: a language model continues a prompt.

use std::path::Path;

use polyhead_attention::Capture;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, rules::Rules};
use polyhead_models::{LanguageModel, LanguageModelDecoding};
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::Tokenizer;

use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

/// A language model that generates text. It may be used by several threads at once.
#[derive(Debug)]
pub struct Generator {
    model: LanguageModel,
    parameters: Parameters,
    tokenizer: Tokenizer,
}

/// Options of generation.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateOptions {
    /// Maximum number of new tokens, end token included; default: 64.
    pub max_new_tokens: usize,
    /// Number of lines to generate: the end token ends a line; default: 1.
    pub lines: usize,
    /// Temperature of sampling; default: 1. At 0 the most probable token is taken.
    pub temperature: f32,
    /// Number of most probable tokens to sample from; default: 0, all.
    pub top_k: usize,
    /// Total probability of the most probable tokens to sample from; default: 1, all.
    pub top_p: f32,
    /// Beam size; default: 1. A larger one searches instead of sampling.
    pub beam_size: usize,
    /// Random seed; default: 0.
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { max_new_tokens: 64, lines: 1, temperature: 1.0, top_k: 0, top_p: 1.0, beam_size: 1, seed: 0 }
    }
}

/// A generated continuation.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The text after the prompt; the end of a line is a line break.
    pub text: String,
    /// Its tokens, end tokens included.
    pub ids: Vec<u32>,
    /// The sum of the natural logarithms of their probabilities.
    pub log_probability: f64,
}

impl Generator {
    /// Loads a language model from a Polyhead model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is not a language model.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let checkpoint = load(folder, options)?;
        let model = checkpoint.model.into_language_model().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let tokenizer = Tokenizer::load(folder.join("tokenizer.json"))?;
        if tokenizer.vocab_size() > model.vocab_size() {
            let message = format!(
                "the tokeniser has {} entries, the model a vocabulary of {}",
                tokenizer.vocab_size(),
                model.vocab_size()
            );
            return Err(Error::file(folder, message, "does the tokeniser belong to another model?"));
        }
        Ok(Self { model, parameters: checkpoint.parameters, tokenizer })
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokens of a prompt, after the start token.
    ///
    /// # Errors
    /// If the prompt has more tokens than the model accepts.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        let mut ids = vec![self.model.special_ids().start_id];
        ids.extend(self.tokenizer.encode(prompt)?.ids);
        match self.model.max_len() {
            Some(max_len) if ids.len() > max_len => Err(Error::request(
                format!("{} tokens, expected at most {max_len}, the model's maximum length", ids.len()),
                "shorten the prompt",
            )),
            _ => Ok(ids),
        }
    }

    /// A continuation of each prompt. It depends on its prompt, the options and the seed alone.
    ///
    /// # Errors
    /// If a prompt is too long or an option is out of range.
    pub fn generate(&self, prompts: &[&str], options: &GenerateOptions) -> Result<Vec<Generated>> {
        let prompts = prompts.iter().map(|prompt| self.encode(prompt)).collect::<Result<Vec<_>>>()?;
        let device = self.parameters.device();
        let mut found = Vec::with_capacity(prompts.len());
        for prompts in prompts.chunks(device.policy().rows) {
            found.extend(self.continued(prompts, options)?);
        }
        Ok(found)
    }

    /// The continuation of each sequence of ids, line by line.
    fn continued(&self, prompts: &[Vec<u32>], options: &GenerateOptions) -> Result<Vec<Generated>> {
        let end_id = self.model.special_ids().end_id;
        let mut all: Vec<(Vec<u32>, f64)> = vec![(Vec::new(), 0.0); prompts.len()];
        for _ in 0..options.lines.max(1) {
            let remaining = |ids: &[u32]| options.max_new_tokens.saturating_sub(ids.len());
            let open: Vec<usize> = (0..prompts.len()).filter(|&at| remaining(&all[at].0) > 0).collect();
            // Prompts with the same number of tokens left are continued together.
            let mut left: Vec<usize> = open.iter().map(|&at| remaining(&all[at].0)).collect();
            left.sort_unstable();
            left.dedup();
            for max_new in left {
                let group: Vec<usize> =
                    open.iter().copied().filter(|&at| remaining(&all[at].0) == max_new).collect();
                let sources: Vec<Vec<u32>> =
                    group.iter().map(|&at| [&prompts[at][..], &all[at].0].concat()).collect();
                let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
                for (at, hypothesis) in group.into_iter().zip(self.search(&sources, max_new, options)?) {
                    all[at].0.extend(hypothesis.ids);
                    all[at].1 += hypothesis.log_probability;
                }
            }
        }
        let texts = prompts.iter().zip(all).map(|(prompt, (ids, log_probability))| {
            Ok(Generated { text: self.text(&prompt[1..], &ids, end_id)?, ids, log_probability })
        });
        texts.collect()
    }

    /// One line after each source, of at most `max_new` tokens.
    fn search(
        &self,
        sources: &[&[u32]],
        max_new: usize,
        options: &GenerateOptions,
    ) -> Result<Vec<Hypothesis>> {
        let special = self.model.special_ids();
        let capture = Capture::off();
        let decoding = LanguageModelDecoding::new(&self.model, &self.parameters, &capture);
        let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let room = self.model.max_len().map_or(usize::MAX, |max_len| max_len.saturating_sub(longest - 1));
        let decode = DecodeOptions {
            start_id: special.start_id,
            end_id: special.end_id,
            lengths: Lengths { max: max_new.min(room), ..Lengths::default() },
            rules: Rules { forbidden: self.never_generated(), ..Rules::default() },
        };
        if options.beam_size > 1 {
            let searching = BeamOptions { decode, beam_size: options.beam_size, ..BeamOptions::default() };
            let found = beam(&decoding, sources, &searching)?;
            return Ok(found.into_iter().map(|mut hypotheses| hypotheses.remove(0)).collect());
        }
        let &GenerateOptions { temperature, top_k, top_p, seed, .. } = options;
        let sampling = SampleOptions { decode, temperature, top_k, top_p, seed, ..SampleOptions::default() };
        let found = sample(&decoding, sources, &sampling)?;
        Ok(found.into_iter().map(|mut samples| samples.remove(0)).collect())
    }

    /// Ids that are never generated: padding, the unknown token and a start token of its own.
    fn never_generated(&self) -> Vec<u32> {
        let special = self.model.special_ids();
        let mut ids = vec![special.pad_id, special.start_id];
        ids.extend(self.tokenizer.unknown_id().into_iter().chain(self.tokenizer.id("<s>")));
        ids.retain(|id| *id != special.end_id);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The text of `ids` after a prompt, the spaces between them included.
    fn text(&self, prompt: &[u32], ids: &[u32], end_id: u32) -> Result<String> {
        let mut text = String::new();
        for (index, line) in ids.split(|id| *id == end_id).enumerate() {
            if index > 0 {
                text.push('\n');
                text += &self.tokenizer.decode(line)?;
                continue;
            }
            let before = self.tokenizer.decode(prompt)?;
            let whole = self.tokenizer.decode(&[prompt, line].concat())?;
            match whole.strip_prefix(&before) {
                Some(rest) => text += rest,
                None => text += &self.tokenizer.decode(line)?,
            }
        }
        // The last end token ends the text, not a line of it.
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }
}
