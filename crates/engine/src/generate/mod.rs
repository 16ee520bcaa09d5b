//! Text generation: a language model continues prompts.
//!
//! [`Generator`] is a loaded folder: model, tokeniser ([`tokenizer`](self)), settings and chat template. A [`Generation`] is a
//! running batch of texts: `sequence.rs` is one of them, with its sampler, its stop strings and its text; `prefill.rs` reads
//! prompts, `partial_prompt.rs` a long one in parts, and `prompt_cache.rs` keeps what they share. `search.rs` is beam search.

mod generation;
mod options;
mod partial_prompt;
mod prefill;
mod prompt_cache;
mod reading;
mod search;
mod sequence;
mod settings;
mod stop;
pub(crate) mod tokenizer;

use std::path::Path;

use polyhead_attention::{Capture, Intervention};
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::SampleOptions;
use polyhead_models::decode::{DecodeOptions, Lengths};
use polyhead_models::{LanguageModel, LanguageModelDecoding};
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::{Encoding, Tokenizer};
use serde_json::Value;

use self::settings::GenerationSettings;
pub(crate) use self::tokenizer::PromptTokenizer;
use crate::chat::ChatTemplate;
use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

pub use generation::{GeneratedToken, Generation, PausedSequence, SequenceId};
pub use options::{GenerateOptions, MAX_NEW_TOKENS, Overflow, Reuse};
pub use reading::{TextReader, TextUnits};
pub use sequence::{Alternative, FinishReason, Generated};

/// Bytes of a token in the lists and texts of a sequence.
const TOKEN_BYTES: usize = 64;
/// Bytes of a vocabulary entry while a token is drawn.
const SCORE_BYTES: usize = 32;

/// A language model that generates text. It may be used by several threads at once.
#[derive(Debug)]
pub struct Generator {
    model: LanguageModel,
    parameters: Parameters,
    tokenizer: PromptTokenizer,
    settings: GenerationSettings,
    template: Option<ChatTemplate>,
    /// The token that a prompt begins with.
    start_id: Option<u32>,
    /// Tokens that are never generated.
    forbidden: Vec<u32>,
    units: TextUnits,
}

/// A prompt as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its tokens, the start token included.
    pub ids: Vec<u32>,
    /// Number of its oldest tokens that were dropped ([`Overflow::Slide`]).
    pub dropped: usize,
}

impl Generator {
    /// Loads a language model from a model folder.
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
        let tokenizer = PromptTokenizer::load(folder)?;
        tokenizer.check(folder, model.vocab_size())?;
        let settings = GenerationSettings::load(folder, &model)?;
        // A model that was trained here has read a start token before each text, lines with their end token, and never padding.
        let units = reading::units(checkpoint.info.layout, &tokenizer, model.special_ids().end_id);
        let is_own = units == TextUnits::Lines;
        let start_id = if is_own { Some(model.special_ids().start_id) } else { tokenizer.start() };
        let forbidden = if is_own { never_generated(&model, tokenizer.tokenizer()) } else { Vec::new() };
        let template = ChatTemplate::load(folder, tokenizer.names())?;
        let parameters = checkpoint.parameters;
        Ok(Self { model, parameters, tokenizer, settings, template, start_id, forbidden, units })
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokeniser of text.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.tokenizer.tokenizer()
    }

    /// The chat template of the folder, if it has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// The options that the folder's settings ask for.
    pub fn options(&self) -> GenerateOptions {
        self.settings.options.clone()
    }

    /// What the folder's settings ask for and is not supported.
    pub fn notes(&self) -> &[String] {
        &self.settings.notes
    }

    /// The ids that end a text.
    pub fn end_ids(&self) -> &[u32] {
        &self.settings.end_ids
    }

    /// The token that a prompt begins with.
    pub fn start_id(&self) -> Option<u32> {
        self.start_id
    }

    /// The units of the text that the model was trained on.
    pub fn units(&self) -> TextUnits {
        self.units
    }

    /// The tokens of a prompt, after the start token if the model has one. Special tokens in the text are text.
    ///
    /// # Errors
    /// If the prompt is empty and the model has no start token.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        Ok(self.encoding(prompt)?.ids)
    }

    /// Same as [`Self::encode`], with pieces and byte ranges of the prompt.
    ///
    /// # Errors
    /// If the prompt is empty and the model has no start token.
    pub fn encoding(&self, prompt: &str) -> Result<Encoding> {
        let Encoding { ids, pieces, offsets } = self.tokenizer.tokenizer().encode(prompt)?;
        let start = self.start_id.or(self.settings.start_id.filter(|_| ids.is_empty()));
        let piece = |id| self.tokenizer.tokenizer().piece(id).unwrap_or_default();
        let found = Encoding {
            ids: start.into_iter().chain(ids).collect(),
            pieces: start.map(piece).into_iter().chain(pieces).collect(),
            offsets: start.map(|_| 0..0).into_iter().chain(offsets).collect(),
        };
        if found.is_empty() {
            let message = "an empty prompt, expected some text: the model has no start token";
            return Err(Error::request(message, "begin the text yourself"));
        }
        Ok(found)
    }

    /// The text of a chat as the model's template writes it.
    ///
    /// # Errors
    /// If the model has no chat template, or the template refuses the messages.
    pub fn render_chat(&self, messages: &[Value]) -> Result<String> {
        let template = self.template.as_ref().ok_or_else(|| {
            let message = "a chat with a model without a chat template, expected chat_template in tokenizer_config.json or chat_template.jinja";
            Error::request(message, "the model continues texts: give it a prompt, or take a model that was trained for chats")
        })?;
        template.render(messages)
    }

    /// The prompt for an answer to `messages`, JSON objects with at least `role` and `content`, by the model's chat template.
    ///
    /// # Errors
    /// If the model has no chat template, or the template refuses the messages.
    pub fn encode_chat(&self, messages: &[Value]) -> Result<Vec<u32>> {
        let escaped: Vec<Value> = messages.iter().map(|message| self.escaped(message)).collect();
        let text = self.render_chat(&escaped)?;
        let ids = self.tokenizer.encode_markup(&text)?;
        if ids.is_empty() {
            return Err(Error::request(
                "a chat template that wrote nothing, expected a prompt",
                "correct chat_template",
            ));
        }
        Ok(ids)
    }

    /// A message in which no text spells a special token.
    fn escaped(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.tokenizer.escaped(text).into(),
            Value::Array(all) => all.iter().map(|value| self.escaped(value)).collect(),
            Value::Object(all) => all
                .iter()
                .map(|(key, value)| (key.clone(), self.escaped(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    /// A prompt that the context has room for.
    ///
    /// # Errors
    /// If it has more tokens than the context and is not to slide.
    pub fn fit(&self, mut ids: Vec<u32>, options: &GenerateOptions) -> Result<Prompt> {
        let Some(max_len) = self.model.max_len().filter(|&max_len| ids.len() > max_len) else {
            return Ok(Prompt { ids, dropped: 0 });
        };
        if options.overflow == Overflow::Refuse {
            self.check_length(ids.len())?;
        }
        let new = options.max_new_tokens.unwrap_or(MAX_NEW_TOKENS);
        let kept = max_len.saturating_sub(new).max(max_len / 2).max(1);
        let has_start = self.start_id.is_some() && ids.first() == self.start_id.as_ref() && kept > 1;
        let dropped = ids.len() - kept;
        let first = usize::from(has_start);
        ids.drain(first..first + dropped);
        Ok(Prompt { ids, dropped })
    }

    /// The continuations of each prompt, `n_samples` of them. They depend on their prompt, the options and the seed alone.
    ///
    /// # Errors
    /// If a prompt is too long or an option is out of range.
    pub fn generate(&self, prompts: &[&str], options: &GenerateOptions) -> Result<Vec<Vec<Generated>>> {
        let prompts = prompts
            .iter()
            .map(|prompt| Ok(self.fit(self.encode(prompt)?, options)?.ids))
            .collect::<Result<Vec<_>>>()?;
        self.generate_ids(&prompts, options)
    }

    /// Same as [`Self::generate`] for prompts as tokens.
    ///
    /// # Errors
    /// If a prompt is empty or too long, or an option is out of range.
    pub fn generate_ids(
        &self,
        prompts: &[Vec<u32>],
        options: &GenerateOptions,
    ) -> Result<Vec<Vec<Generated>>> {
        options.check()?;
        if options.beam_size > 1 {
            return search::beams(self, prompts, options);
        }
        let mut generation = self.generation();
        let (mut places, mut found) = (Vec::new(), Vec::new());
        for prompt in prompts {
            for sample in 0..options.n_samples {
                places.push(generation.join(prompt, options, sample as u64)?);
                found.push(None);
            }
        }
        while !generation.is_empty() {
            for token in generation.step()? {
                if let (Some(text), Ok(place)) = (token.finished, places.binary_search(&token.sequence)) {
                    found[place] = Some(text);
                }
            }
        }
        let mut found = found.into_iter().flatten();
        Ok(prompts.iter().map(|_| found.by_ref().take(options.n_samples).collect()).collect())
    }

    /// The most bytes of memory that a sequence takes while it grows to `length` tokens, prompt included, the results of its
    /// steps excluded.
    pub fn sequence_bytes(&self, length: usize) -> usize {
        // Prompt and text are in the sequence, its sampler and its stream; scores of the vocabulary are copied while it draws.
        self.model.state_bytes(length) + length * TOKEN_BYTES + self.model.vocab_size() * SCORE_BYTES
    }

    /// The number of tokens that may follow a prompt of `length` tokens, end token included.
    pub fn max_new_tokens(&self, length: usize, options: &GenerateOptions) -> usize {
        self.max_new(length, options)
    }

    /// A running batch without sequences.
    pub fn generation(&self) -> Generation<'_> {
        Generation::new(self)
    }
}

impl Generator {
    fn decoding<'a>(
        &'a self,
        capture: &'a Capture,
        intervention: &'a Intervention,
    ) -> LanguageModelDecoding<'a> {
        let decoding = LanguageModelDecoding::new(&self.model, &self.parameters, capture);
        LanguageModelDecoding { intervention: Some(intervention).filter(|own| !own.is_empty()), ..decoding }
    }

    /// An error if a prompt of `length` tokens is longer than the context.
    fn check_length(&self, length: usize) -> Result<()> {
        match self.model.max_len() {
            Some(max_len) if length > max_len => Err(Error::request(
                format!("a prompt of {length} tokens, expected at most {max_len}, the context of the model"),
                "shorten the prompt, or drop its oldest tokens with --overflow slide",
            )),
            _ => Ok(()),
        }
    }

    /// The number of tokens that may follow a prompt of `length` tokens.
    fn max_new(&self, length: usize, options: &GenerateOptions) -> usize {
        let by_length = self.settings.max_length.map(|max_length| max_length.saturating_sub(length).max(1));
        let wanted = options.max_new_tokens.or(by_length).unwrap_or(MAX_NEW_TOKENS);
        // The last token is not read any more.
        let room = self.model.max_len().map_or(usize::MAX, |max_len| (max_len + 1).saturating_sub(length));
        wanted.min(room)
    }

    /// The options of decoding.
    fn decode_options(&self, options: &GenerateOptions, max_new: usize) -> DecodeOptions {
        let rules = &self.settings.rules;
        DecodeOptions {
            start_id: self.model.special_ids().start_id,
            end_id: self.settings.end_ids[0],
            lengths: Lengths { min: options.min_new_tokens, max: max_new, ..Lengths::default() },
            rules: Rules {
                forbidden: [&rules.forbidden[..], &self.forbidden].concat(),
                no_repeat_ngram: options.no_repeat_ngram,
                repetition_penalty: options.repetition_penalty,
                includes_source: true,
                ..rules.clone()
            },
        }
    }

    /// The options of sampling.
    fn sampling(&self, options: &GenerateOptions, max_new: usize) -> SampleOptions {
        let &GenerateOptions { temperature, top_k, top_p, min_p, seed, .. } = options;
        let decode = self.decode_options(options, max_new);
        SampleOptions { decode, temperature, top_k, top_p, min_p, n_samples: 1, seed }
    }
}

/// Ids that a model that was trained here never generates: padding, the unknown token and a start token of its own.
fn never_generated(model: &LanguageModel, tokenizer: &Tokenizer) -> Vec<u32> {
    let special = model.special_ids();
    let mut ids = vec![special.pad_id, special.start_id];
    ids.extend(tokenizer.unknown_id().into_iter().chain(tokenizer.id("<s>")));
    ids.retain(|id| *id != special.end_id);
    ids.sort_unstable();
    ids.dedup();
    ids
}
