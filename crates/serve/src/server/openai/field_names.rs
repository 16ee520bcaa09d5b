//! The names of the fields, and those that cannot be honoured.
//!
//! A field of OpenAI's API that this server does not support is refused, unless its value asks for nothing; fields that do not
//! change the text (`user`, `metadata`, …) are accepted. Unknown fields are refused, so that no misspelt one is overlooked.

use serde_json::Value;

use super::error::OpenAiError;
use super::field_values::HINT;
use crate::front::ErrorResponse;
use crate::front::fields::{Fields, quoted};

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

/// Fields of `/v1/completions`.
#[rustfmt::skip]
const COMPLETION_FIELDS: &[&str] = &[
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
#[rustfmt::skip]
const CHAT_FIELDS: &[&str] = &[
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

/// A field that is not supported, whether a value of it asks for nothing, and the reason.
pub(super) type UnsupportedField = (&'static str, fn(&Value) -> bool, &'static str);

const UNSUPPORTED: &[UnsupportedField] = &[
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

/// Refuses unknown fields, and unsupported ones that ask for something.
///
/// # Errors
/// 400 with the field and the reason.
pub(super) fn check(kind: CallKind, fields: &Fields) -> Result<(), OpenAiError> {
    let known = kind.fields();
    check_known(known, fields)?;
    let unsupported = UNSUPPORTED.iter().filter(|(name, ..)| known.contains(name));
    check_supported(unsupported, fields)
}

/// Refuses fields that are not supported and ask for something.
///
/// # Errors
/// 400 with the field and the reason.
pub(super) fn check_supported<'a>(
    unsupported: impl IntoIterator<Item = &'a UnsupportedField>,
    fields: &Fields,
) -> Result<(), OpenAiError> {
    for &(name, asks_nothing, reason) in unsupported {
        let value = fields.value(name);
        if value.is_some_and(|value| !value.is_null() && !asks_nothing(&value)) {
            let error = format!("{name} is not supported: {reason}");
            return Err(OpenAiError::field(name, error, "leave it out").with_code("unsupported_field"));
        }
    }
    Ok(())
}

/// Refuses unknown fields.
///
/// # Errors
/// 400 with the field.
pub(super) fn check_known(known: &[&str], fields: &Fields) -> Result<(), OpenAiError> {
    let Some(unknown) = fields.names().find(|name| !known.contains(name)) else { return Ok(()) };
    let error = format!("unknown field {}", quoted(unknown));
    let hint = format!("{HINT}; the server accepts {}", known.join(", "));
    Err(OpenAiError::from(ErrorResponse::bad_request(error, hint)).with_code("unknown_field"))
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

pub(super) fn is_empty(value: &Value) -> bool {
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
