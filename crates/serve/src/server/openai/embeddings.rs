//! `/v1/embeddings`: vectors of texts.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_engine::LongTexts;
use polyhead_engine::encoder::modules::Normalisation;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use super::super::encoder::{EncodedTexts, EncoderCall, EncoderError, EncoderOutput, EncoderUse, TextsOrIds};
use super::super::routes::{ReadRequest, ServerState};
use super::VALUES;
use super::error::OpenAiError;
use super::field_names::check_known;
use super::field_values::{HINT, boolean, text, whole};
use crate::blocking::blocking_if_large;
use crate::front::fields::{Fields, quoted};
use crate::front::form::{KnownFields, UnknownFields};

/// Fields of `/v1/embeddings`.
#[rustfmt::skip]
const FIELDS: &[&str] = &[
    "input",
    "model",
    "encoding_format",
    "dimensions",
    "user",
    "truncate",
    "prompt_name",
    "api_key",
];

/// How a vector is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorEncoding {
    /// An array of numbers.
    Float,
    /// The bytes of the numbers (f32, the lowest first) in base64.
    Base64,
}

pub(in super::super) async fn embeddings(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let deadline = Instant::now() + state.limits.deadline;
    let known = KnownFields { names: FIELDS, values: VALUES, unknown: UnknownFields::Named };
    let read = state.read(request, state.limits.input_body, known).await?;
    let ReadRequest { fields, client, mut memory, .. } = read;
    check_known(FIELDS, &fields)?;
    let encoding = encoding(&fields)?;
    let input = TextsOrIds::read("input", fields.value("input"));
    let is_cut = boolean(&fields, "truncate")?.unwrap_or(false);
    let call = EncoderCall {
        client,
        model: text(&fields, "model")?,
        needed: EncoderUse::Vectors,
        output: EncoderOutput::Vector(Normalisation::AsModel),
        inputs: input.map_err(|error| OpenAiError::field("input", error, HINT))?.inputs(),
        long: if is_cut { LongTexts::Truncate } else { LongTexts::Refuse },
        prompt: text(&fields, "prompt_name")?,
        dimensions: whole(&fields, "dimensions", [1, usize::MAX])?,
        number_bytes: if encoding == VectorEncoding::Float { 16 } else { 6 },
        text_bytes: 0,
        deadline,
    };
    drop(fields);
    let found = call.run(&state, &mut memory).await?;
    let bytes = found.rows.iter().map(Vec::len).sum();
    let body = blocking_if_large(bytes, move || Ok(written(&found, encoding))).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], memory.counted(body)).into_response())
}

fn encoding(fields: &Fields) -> Result<VectorEncoding, OpenAiError> {
    match text(fields, "encoding_format")?.as_deref() {
        None | Some("float") => Ok(VectorEncoding::Float),
        Some("base64") => Ok(VectorEncoding::Base64),
        Some(other) => {
            let error = format!("encoding_format: {}, expected float or base64", quoted(other));
            Err(OpenAiError::field("encoding_format", error, HINT))
        }
    }
}

impl From<EncoderError> for OpenAiError {
    fn from(error: EncoderError) -> Self {
        let field =
            |param, response: crate::front::ErrorResponse| Self::field(param, response.error, response.hint);
        match error {
            EncoderError::TooLong(response) => field("input", response).with_code("context_length_exceeded"),
            EncoderError::Unreadable(response) => field("input", response),
            EncoderError::Dimensions(response) => field("dimensions", response),
            EncoderError::Other(error) => error.into(),
        }
    }
}

/// The answer.
#[derive(Serialize)]
struct EmbeddingsAnswer<'a> {
    object: &'static str,
    data: EmbeddingList<'a>,
    model: &'a str,
    usage: EmbeddingUsage,
}

#[derive(Serialize)]
struct EmbeddingUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

struct EmbeddingList<'a>(&'a [Vec<f32>], VectorEncoding);

#[derive(Serialize)]
struct EmbeddingAnswer<'a> {
    object: &'static str,
    index: usize,
    embedding: EmbeddingVector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EmbeddingVector<'a> {
    Numbers(&'a [f32]),
    Base64(String),
}

impl Serialize for EmbeddingList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(rows, encoding) = self;
        let mut list = serializer.serialize_seq(Some(rows.len()))?;
        for (index, row) in rows.iter().enumerate() {
            let embedding = match encoding {
                VectorEncoding::Float => EmbeddingVector::Numbers(row),
                VectorEncoding::Base64 => EmbeddingVector::Base64(base64(row)),
            };
            list.serialize_element(&EmbeddingAnswer { object: "embedding", index, embedding })?;
        }
        list.end()
    }
}

fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

fn written(found: &EncodedTexts, encoding: VectorEncoding) -> Vec<u8> {
    let EncodedTexts { loaded, rows, n_tokens, .. } = found;
    let usage = EmbeddingUsage { prompt_tokens: *n_tokens, total_tokens: *n_tokens };
    let data = EmbeddingList(rows, encoding);
    let answer = EmbeddingsAnswer { object: "list", data, model: &loaded.name, usage };
    found.json(&answer)
}
