//! `/classify`: the classes of an image, in the shape of Hugging Face's inference API for image classification.
//!
//! The body is the file itself, or JSON with the file in base64, or a form; the answer is a list of labels with scores.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use super::images::ImageCall;
use super::routes::{ReadRequest, ServerState, counted_json};
use crate::front::ErrorResponse;
use crate::front::fields::{Fields, quoted};
use crate::front::form::{KnownFields, UnknownFields};

/// Fields of a request.
const FIELDS: &[&str] = &["inputs", "file", "parameters", "top_k", "function_to_apply", "model", "api_key"];
/// Members of `parameters`.
const PARAMETERS: &[&str] = &["top_k", "function_to_apply"];
/// Classes in an answer by default, as at Hugging Face.
const TOP: usize = 5;
/// The hint of most errors.
const HINT: &str = "/docs shows each field";

/// A class with its score.
#[derive(Serialize)]
struct ScoredLabel {
    label: String,
    score: f64,
}

pub(super) async fn classify(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let deadline = Instant::now() + state.limits.deadline;
    let (read, sent) = read(&state, request).await?;
    let ReadRequest { fields, client, mut memory, .. } = read;
    if let Some(unknown) = fields.names().find(|name| !FIELDS.contains(name)) {
        return Err(unknown_field(unknown, FIELDS));
    }
    let top = top(&fields)?;
    let model = fields.text("model")?.map(str::to_owned);
    let file = sent.map_or_else(|| file(&fields), Ok)?;
    drop(fields);
    let classes = ImageCall { client, model, file, deadline }.run(&state, &mut memory).await?;
    let scored = classes.into_iter().take(top);
    let scored: Vec<ScoredLabel> =
        scored.map(|class| ScoredLabel { label: class.label, score: class.probability }).collect();
    Ok(counted_json(&scored, memory))
}

/// Reads JSON and forms; anything else is the file itself.
async fn read(state: &ServerState, request: Request) -> Result<(ReadRequest, Option<Bytes>), ErrorResponse> {
    let media_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_lowercase();
    let limit = state.limits.file;
    if ["application/json", "multipart/form-data"].contains(&essence.as_str()) {
        let known = KnownFields { names: FIELDS, values: 64, unknown: UnknownFields::Named };
        // Base64 has four characters for three bytes.
        return Ok((state.read(request, limit / 3 * 4 + 1024, known).await?, None));
    }
    let (read, bytes) = state.read_file(request, limit).await?;
    Ok((read, Some(bytes)))
}

/// The number of classes in the answer.
fn top(fields: &Fields) -> Result<usize, ErrorResponse> {
    let invalid = |name: &str, found: &str, expected: &str| {
        ErrorResponse::bad_request(format!("{name}: {found}, expected {expected}"), HINT)
    };
    let parameters = match fields.value("parameters") {
        None | Some(Value::Null) => serde_json::Map::new(),
        Some(Value::Object(own)) => own,
        Some(_) => return Err(invalid("parameters", "another value", "an object")),
    };
    if let Some(unknown) = parameters.keys().find(|name| !PARAMETERS.contains(&name.as_str())) {
        return Err(unknown_field(unknown, PARAMETERS));
    }
    let given = |name: &str| parameters.get(name).cloned().or_else(|| fields.value(name));
    match given("function_to_apply") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) if name == "softmax" => {}
        Some(other) => {
            let found = other.as_str().map_or_else(|| "another value".into(), quoted);
            return Err(invalid("function_to_apply", &found, "softmax: scores are probabilities"));
        }
    }
    let number = match given("top_k") {
        None | Some(Value::Null) => return Ok(TOP),
        Some(Value::String(text)) => text.parse::<usize>().ok(),
        Some(other) => other.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| invalid("top_k", "another value", "a whole number above 0"))
}

/// The file of a form, or in base64.
fn file(fields: &Fields) -> Result<Bytes, ErrorResponse> {
    if let Some(file) = fields.file("file")? {
        return Ok(file.bytes.clone());
    }
    let text = fields.text("inputs")?.ok_or_else(|| {
        let hint = "send it as the body: curl --data-binary @cat.jpg -H 'content-type: image/jpeg'";
        ErrorResponse::bad_request("no image, expected PNG or JPEG", hint)
    })?;
    let bytes = STANDARD.decode(text.trim()).map_err(|_| {
        let error = "inputs: not base64, expected the bytes of an image in base64";
        ErrorResponse::bad_request(error, "send the image itself as the body")
    })?;
    Ok(bytes.into())
}

fn unknown_field(name: &str, known: &[&str]) -> ErrorResponse {
    let hint = format!("{HINT}; the server accepts {}", known.join(", "));
    ErrorResponse::bad_request(format!("unknown field {}", quoted(name)), hint)
}
