//! The fields of `/v1/completions` and `/v1/chat/completions`, read and checked.
//!
//! A field of OpenAI's API that this server cannot honour is refused, unless its value asks for nothing; fields that do not
//! change the text (`user`, `metadata`, …) are accepted. Unknown fields are refused, so that no misspelt one is overlooked.

use polyhead_engine::generate::GenerateOptions;
use serde_json::Value;

use super::error::OpenAiError;
use crate::front::ErrorResponse;
use crate::front::fields::{Fields, Texts, quoted};
use crate::server::limits::RequestLimits;

/// Maximum number of stop strings.
const MAX_STOPS: usize = 16;
/// Maximum bytes of a stop string.
const MAX_STOP_BYTES: usize = 1024;
/// Maximum number of alternatives of a token.
const MAX_ALTERNATIVES: usize = 20;
/// New tokens of a completion where the request does not say how many, as in OpenAI's API.
const COMPLETION_TOKENS: usize = 16;
/// Largest number that JSON clients keep exactly.
const MAX_RANDOM_SEED: u64 = 1 << 53;

const HINT: &str = "/docs shows each field";

/// Fields of `/v1/completions`.
pub(super) const COMPLETION_FIELDS: &[&str] = &[
    "model",
    "prompt",
    "max_tokens",
    "temperature",
    "top_p",
    "n",
    "stream",
    "stream_options",
    "stop",
    "seed",
    "logprobs",
    "echo",
    "top_k",
    "min_p",
    "repetition_penalty",
    "no_repeat_ngram",
    "min_tokens",
    "best_of",
    "suffix",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "user",
    "api_key",
];

/// Fields of `/v1/chat/completions`.
pub(super) const CHAT_FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stream",
    "stream_options",
    "stop",
    "seed",
    "logprobs",
    "top_logprobs",
    "top_k",
    "min_p",
    "repetition_penalty",
    "no_repeat_ngram",
    "min_tokens",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "response_format",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "parallel_tool_calls",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "reasoning_effort",
    "verbosity",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "api_key",
];

/// Fields that are not supported: values that ask for nothing, and the reason.
const UNSUPPORTED: &[(&str, fn(&Value) -> bool, &str)] = &[
    ("suffix", is_empty, "the model continues texts; it does not fill gaps"),
    ("presence_penalty", is_zero, "use repetition_penalty"),
    ("frequency_penalty", is_zero, "use repetition_penalty"),
    ("logit_bias", is_empty, "logits cannot be changed"),
    ("response_format", is_text_format, "answers are text; they cannot be forced into JSON"),
    ("tools", is_empty, "tools cannot be called"),
    ("tool_choice", is_none, "tools cannot be called"),
    ("functions", is_empty, "functions cannot be called"),
    ("function_call", is_none, "functions cannot be called"),
    ("modalities", is_text_list, "answers are text"),
    ("audio", is_empty, "answers are text"),
    ("prediction", is_empty, "predicted outputs are not supported"),
    ("web_search_options", Value::is_null, "the server does not search"),
    ("reasoning_effort", is_none, "the model does not reason before it answers"),
    ("verbosity", is_medium, "say in the messages how long the answer shall be"),
];

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_none(value: &Value) -> bool {
    matches!(value.as_str(), Some("none" | "auto"))
}

fn is_medium(value: &Value) -> bool {
    value.as_str() == Some("medium")
}

fn is_text_format(value: &Value) -> bool {
    value["type"].as_str() == Some("text")
}

fn is_text_list(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(|kind| kind.as_str() == Some("text")))
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `/v1/completions`.
    Completion,
    /// `/v1/chat/completions`.
    Chat,
}

impl CallKind {
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Completion => COMPLETION_FIELDS,
            Self::Chat => CHAT_FIELDS,
        }
    }
}

/// A checked request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextRequest {
    pub(super) kind: CallKind,
    pub(super) model: Option<String>,
    pub(super) input: TextInput,
    /// Texts for each prompt.
    pub(super) samples: usize,
    /// True if the prompt is a part of the answer.
    pub(super) has_echo: bool,
    /// Alternatives of each token, if log-probabilities are asked for.
    pub(super) log_probabilities: Option<usize>,
    pub(super) stream: Streaming,
    pub(super) sampling: Sampling,
}

/// What is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextInput {
    /// Texts.
    Texts(Vec<String>),
    /// Tokens.
    Ids(Vec<Vec<u32>>),
    /// Messages with `role` and `content`.
    Messages(Vec<Value>),
}

/// How the answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streaming {
    /// Whole.
    Off,
    /// As server-sent events.
    Events,
    /// As server-sent events, the last with the number of tokens.
    EventsWithUsage,
}

/// Options that a request may set; `None` takes the value of the model folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sampling {
    max_new_tokens: Option<usize>,
    min_new_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    no_repeat_ngram: Option<usize>,
    stop: Vec<String>,
    seed: Option<u64>,
}

impl TextRequest {
    /// Reads and checks all fields.
    ///
    /// # Errors
    /// 400 with the field, what was found and expected.
    pub(super) fn read(kind: CallKind, fields: &Fields, limits: &RequestLimits) -> Result<Self, OpenAiError> {
        let known = kind.fields();
        if let Some(unknown) = fields.names().find(|name| !known.contains(name)) {
            let error = format!("unknown field {}", quoted(unknown));
            let hint = format!("{HINT}; the server accepts {}", known.join(", "));
            return Err(OpenAiError::from(ErrorResponse::bad_request(error, hint)).with_code("unknown_field"));
        }
        for (name, asks_nothing, reason) in
            UNSUPPORTED.iter().copied().filter(|(name, ..)| known.contains(name))
        {
            let value = fields.value(name);
            if value.is_some_and(|value| !value.is_null() && !asks_nothing(&value)) {
                let error = format!("{name} is not supported: {reason}");
                return Err(OpenAiError::field(name, error, "leave it out").with_code("unsupported_field"));
            }
        }
        let samples = whole(fields, "n", [1, limits.samples])?.unwrap_or(1);
        if let Some(best_of) = whole(fields, "best_of", [1, limits.samples])?.filter(|best| *best != samples)
        {
            let error = format!("best_of is {best_of}, expected n ({samples}): texts are not ranked");
            return Err(OpenAiError::field("best_of", error, "leave it out"));
        }
        let input = match kind {
            CallKind::Completion => prompts(fields)?,
            CallKind::Chat => TextInput::Messages(messages(fields)?),
        };
        let count = input.len() * samples;
        if count > limits.texts {
            let error = format!("{count} texts, expected at most {}", limits.texts);
            return Err(OpenAiError::field("prompt", error, "send several requests"));
        }
        Ok(Self {
            kind,
            model: text(fields, "model")?,
            samples,
            has_echo: boolean(fields, "echo")?.unwrap_or(false),
            log_probabilities: log_probabilities(kind, fields)?,
            stream: streaming(fields)?,
            sampling: Sampling::read(kind, fields, limits)?,
            input,
        })
    }
}

impl TextInput {
    /// Number of prompts.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Ids(prompts) => prompts.len(),
            Self::Messages(_) => 1,
        }
    }

    /// Characters of all texts.
    pub(super) fn characters(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.iter().map(|text| text.chars().count()).sum(),
            Self::Ids(_) => 0,
            Self::Messages(messages) => {
                messages.iter().filter_map(|message| Some(message["content"].as_str()?.chars().count())).sum()
            }
        }
    }
}

impl Sampling {
    fn read(kind: CallKind, fields: &Fields, limits: &RequestLimits) -> Result<Self, OpenAiError> {
        let most = limits.new_tokens;
        let max_tokens = whole(fields, "max_tokens", [1, most])?;
        let max_new_tokens = match kind {
            CallKind::Completion => Some(max_tokens.unwrap_or(COMPLETION_TOKENS)),
            CallKind::Chat => whole(fields, "max_completion_tokens", [1, most])?.or(max_tokens),
        };
        Ok(Self {
            max_new_tokens,
            min_new_tokens: whole(fields, "min_tokens", [0, most])?,
            temperature: decimal(fields, "temperature", |number| number >= 0.0, "a number not below 0")?,
            top_p: decimal(
                fields,
                "top_p",
                |number| number > 0.0 && number <= 1.0,
                "a probability above 0, at most 1",
            )?,
            top_k: whole(fields, "top_k", [0, usize::MAX])?,
            min_p: decimal(fields, "min_p", |number| (0.0..=1.0).contains(&number), "a ratio from 0 to 1")?,
            repetition_penalty: decimal(
                fields,
                "repetition_penalty",
                |number| number > 0.0,
                "a positive number; 1 is none",
            )?,
            no_repeat_ngram: whole(fields, "no_repeat_ngram", [0, most])?,
            stop: stops(fields)?,
            seed: seed(fields)?,
        })
    }

    /// The options over those of the model's folder, with at most `most` new tokens and a random seed unless there is one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn over(&self, model: GenerateOptions, most: usize) -> crate::Result<GenerateOptions> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random()? % MAX_RANDOM_SEED,
        };
        // Who restricts sampling asks for it, whatever the model's settings say.
        let is_sampled = self.top_p.is_some() || self.top_k.is_some() || self.min_p.is_some();
        let temperature = if is_sampled && model.temperature == 0.0 { 1.0 } else { model.temperature };
        Ok(GenerateOptions {
            max_new_tokens: Some(self.max_new_tokens.or(model.max_new_tokens).unwrap_or(most).min(most)),
            min_new_tokens: self.min_new_tokens.unwrap_or(model.min_new_tokens),
            temperature: self.temperature.unwrap_or(temperature),
            top_p: self.top_p.unwrap_or(model.top_p),
            top_k: self.top_k.unwrap_or(model.top_k),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            no_repeat_ngram: self.no_repeat_ngram.unwrap_or(model.no_repeat_ngram),
            stop: [&model.stop[..], &self.stop].concat(),
            n_samples: 1,
            beam_size: 1,
            seed,
            ..model
        })
    }
}

/// 64 random bits of the system.
pub(super) fn random() -> crate::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| crate::Error::NoRandomness { reason: error.to_string() })?;
    Ok(u64::from_ne_bytes(bytes))
}

fn prompts(fields: &Fields) -> Result<TextInput, OpenAiError> {
    const EXPECTED: &str = "a text, an array of texts, an array of tokens, or an array of arrays of tokens";
    let wrong =
        |found: &str| OpenAiError::field("prompt", format!("prompt: {found}, expected {EXPECTED}"), HINT);
    let ids = |items: &[Value]| -> Option<Vec<u32>> {
        items.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
    };
    match fields.value("prompt") {
        None | Some(Value::Null) => Err(wrong("nothing")),
        Some(Value::String(text)) => Ok(TextInput::Texts(vec![text])),
        Some(Value::Array(items)) => match items.first() {
            None => Err(wrong("an empty array")),
            Some(Value::String(_)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                texts.map(TextInput::Texts).ok_or_else(|| wrong("an array of texts and other values"))
            }
            Some(Value::Number(_)) => ids(&items)
                .map(|ids| TextInput::Ids(vec![ids]))
                .ok_or_else(|| wrong("an array of numbers and other values")),
            Some(_) => {
                let prompts = items.iter().map(|item| ids(item.as_array()?));
                let prompts: Option<Vec<Vec<u32>>> = prompts.collect();
                prompts.map(TextInput::Ids).ok_or_else(|| wrong("an array of other values"))
            }
        },
        Some(_) => Err(wrong("another value")),
    }
}

/// The messages of a chat, each with `role` and the text of its `content`.
fn messages(fields: &Fields) -> Result<Vec<Value>, OpenAiError> {
    let wrong = |found: String| OpenAiError::field("messages", format!("messages: {found}"), HINT);
    let value = fields.value("messages").unwrap_or_default();
    let items = value.as_array().filter(|items| !items.is_empty()).ok_or_else(|| {
        wrong("expected an array of messages, such as {\"role\": \"user\", \"content\": \"Hello\"}".into())
    })?;
    let message = |(index, item): (usize, &Value)| {
        let wrong = |found: &str| wrong(format!("message {}: {found}", index + 1));
        let role = match item["role"].as_str() {
            Some("developer") => "system",
            Some(role @ ("system" | "user" | "assistant")) => role,
            Some("tool" | "function") => {
                return Err(wrong("role \"tool\" is not supported: tools cannot be called"));
            }
            Some(other) => {
                let found = format!("role {}, expected system, developer, user or assistant", quoted(other));
                return Err(wrong(&found));
            }
            None => return Err(wrong("no role, expected system, developer, user or assistant")),
        };
        for field in ["tool_calls", "function_call", "audio"] {
            if !item[field].is_null() && !is_empty(&item[field]) {
                return Err(wrong(&format!("{field} is not supported: messages are text")));
            }
        }
        let content = content(&item["content"]).ok_or_else(|| {
            wrong("expected content as a text, or as parts {\"type\": \"text\", \"text\": \"…\"}")
        })?;
        let mut message = serde_json::Map::from_iter([
            ("role".to_owned(), Value::from(role)),
            ("content".to_owned(), Value::from(content)),
        ]);
        if let Some(name) = item["name"].as_str() {
            message.insert("name".into(), name.into());
        }
        Ok(Value::Object(message))
    };
    items.iter().enumerate().map(message).collect()
}

/// The text of a message: a string, or parts of which all are text.
fn content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().filter(|_| part["type"].as_str() == Some("text")))
            .collect(),
        _ => None,
    }
}

fn stops(fields: &Fields) -> Result<Vec<String>, OpenAiError> {
    let found = match fields.texts("stop").map_err(|error| named("stop", error))? {
        None => return Ok(Vec::new()),
        Some(Texts::One(stop)) => vec![stop],
        Some(Texts::Many(stops)) => stops,
    };
    let wrong = |found: String, hint: &str| Err(OpenAiError::field("stop", format!("stop: {found}"), hint));
    if found.len() > MAX_STOPS {
        let found = format!("{} texts, expected at most {MAX_STOPS}", found.len());
        return wrong(found, "send the most important ones");
    }
    if let Some(long) = found.iter().find(|stop| stop.len() > MAX_STOP_BYTES) {
        return wrong(
            format!("a text of {} bytes, expected at most {MAX_STOP_BYTES}", long.len()),
            "shorten it",
        );
    }
    if found.iter().any(String::is_empty) {
        return wrong("an empty text".into(), "every text would end before it began; leave it out");
    }
    Ok(found)
}

fn streaming(fields: &Fields) -> Result<Streaming, OpenAiError> {
    let is_on = boolean(fields, "stream")?.unwrap_or(false);
    let options = fields.value("stream_options").filter(|options| !options.is_null());
    match options {
        None => Ok(if is_on { Streaming::Events } else { Streaming::Off }),
        Some(_) if !is_on => {
            let error = "stream_options without stream, expected both";
            Err(OpenAiError::field(
                "stream_options",
                error,
                "leave stream_options out, or set stream to true",
            ))
        }
        Some(options) => match &options["include_usage"] {
            Value::Bool(true) => Ok(Streaming::EventsWithUsage),
            Value::Bool(false) | Value::Null => Ok(Streaming::Events),
            _ => {
                let error = "stream_options: include_usage is neither true nor false";
                Err(OpenAiError::field("stream_options", error, HINT))
            }
        },
    }
}

fn log_probabilities(kind: CallKind, fields: &Fields) -> Result<Option<usize>, OpenAiError> {
    match kind {
        CallKind::Completion => whole(fields, "logprobs", [0, MAX_ALTERNATIVES]),
        CallKind::Chat => {
            let is_on = boolean(fields, "logprobs")?.unwrap_or(false);
            let count = whole(fields, "top_logprobs", [0, MAX_ALTERNATIVES])?;
            if count.is_some_and(|count| count > 0) && !is_on {
                let error = "top_logprobs without logprobs, expected both";
                return Err(OpenAiError::field("top_logprobs", error, "set logprobs to true"));
            }
            Ok(is_on.then(|| count.unwrap_or(0)))
        }
    }
}

fn seed(fields: &Fields) -> Result<Option<u64>, OpenAiError> {
    match fields.value("seed") {
        None | Some(Value::Null) => Ok(None),
        // OpenAI's seeds may be negative.
        Some(value) => match value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)) {
            Some(seed) => Ok(Some(seed)),
            None => Err(OpenAiError::field("seed", "seed: expected a whole number", HINT)),
        },
    }
}

fn text(fields: &Fields, name: &'static str) -> Result<Option<String>, OpenAiError> {
    Ok(fields.text(name).map_err(|error| named(name, error))?.map(str::to_owned))
}

fn boolean(fields: &Fields, name: &'static str) -> Result<Option<bool>, OpenAiError> {
    fields.boolean(name).map_err(|error| named(name, error))
}

/// A whole number in a range.
fn whole(
    fields: &Fields,
    name: &'static str,
    [least, most]: [usize; 2],
) -> Result<Option<usize>, OpenAiError> {
    let found = fields.number(name).map_err(|error| named(name, error))?;
    match found.map(|number| usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(number) if !(least..=most).contains(&number) => {
            let error = format!("{name}: {number}, expected {least} to {most}");
            Err(OpenAiError::field(name, error, HINT))
        }
        other => Ok(other),
    }
}

/// A number.
fn decimal(
    fields: &Fields,
    name: &'static str,
    fits: impl Fn(f32) -> bool,
    expected: &str,
) -> Result<Option<f32>, OpenAiError> {
    match fields.value(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().map(|number| number as f32) {
            Some(number) if number.is_finite() && fits(number) => Ok(Some(number)),
            _ => Err(OpenAiError::field(
                name,
                format!("{name}: {}, expected {expected}", quoted(&value.to_string())),
                HINT,
            )),
        },
    }
}

fn named(name: &'static str, error: ErrorResponse) -> OpenAiError {
    OpenAiError::field(name, error.error, error.hint)
}
