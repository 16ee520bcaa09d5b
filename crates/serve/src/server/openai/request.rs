//! The fields of `/v1/completions` and `/v1/chat/completions`, read and checked.

use serde_json::Value;

use super::error::OpenAiError;
use super::field_names::{self, CallKind, is_empty};
use super::field_values::{HINT, boolean, text, whole};
use super::sampling::Sampling;
use crate::front::fields::{Fields, quoted};
use crate::server::encoder::TextsOrIds;
use crate::server::limits::RequestLimits;

/// Maximum number of alternatives of a token.
const MAX_ALTERNATIVES: usize = 20;

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

impl TextRequest {
    /// Reads and checks all fields.
    ///
    /// # Errors
    /// 400 with the field, what was found and expected.
    pub(super) fn read(kind: CallKind, fields: &Fields, limits: &RequestLimits) -> Result<Self, OpenAiError> {
        field_names::check(kind, fields)?;
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

fn prompts(fields: &Fields) -> Result<TextInput, OpenAiError> {
    let found = TextsOrIds::read("prompt", fields.value("prompt"));
    match found.map_err(|error| OpenAiError::field("prompt", error, HINT))? {
        TextsOrIds::Texts(texts) => Ok(TextInput::Texts(texts)),
        TextsOrIds::Ids(prompts) => Ok(TextInput::Ids(prompts)),
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
