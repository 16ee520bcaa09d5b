//! The calls of Hugging Face's text-embeddings-inference: `/embed`, `/embed_all`, `/rerank`, `/predict`, `/similarity`, `/info`.
//!
//! `request.rs` reads the fields, `answers.rs` has the JSON, `error.rs` the errors; [`super::encoder`] does the work. A server
//! may have several models, so each call also has `model`; without it, the first model that is meant for the call answers.

mod answers;
mod error;
mod request;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use polyhead_engine::LongTexts;
use polyhead_engine::classify::ClassScores;
use polyhead_engine::encoder::embed::cosine;
use polyhead_engine::encoder::modules::Normalisation;
use serde_json::Value;

use self::answers::{InfoAnswer, predictions, ranks};
use self::error::TeiError;
use self::request::{CallFields, HINT, PredictInputs, long};
use super::encoder::{EncodedTexts, EncoderCall, EncoderInput, EncoderOutput, EncoderUse};
use super::routes::{ReadRequest, ServerState, json};
use super::scheduler::Client;
use crate::blocking::blocking_if_large;
use crate::front::ErrorResponse;
use crate::front::budget::MemoryReservation;
use crate::front::fields::{Fields, quoted};
use crate::front::form::{KnownFields, UnknownFields, query_value};

/// Maximum number of JSON values in a request, such as ids of texts.
const VALUES: usize = 1 << 16;
/// Bytes of a number in JSON.
const NUMBER_BYTES: usize = 16;

const EMBED: &[&str] = &[
    "inputs",
    "normalize",
    "truncate",
    "truncation_direction",
    "prompt_name",
    "dimensions",
    "parameters",
    "model",
    "api_key",
];
const EMBED_ALL: &[&str] =
    &["inputs", "truncate", "truncation_direction", "prompt_name", "parameters", "model", "api_key"];
const RERANK: &[&str] = &[
    "query",
    "texts",
    "raw_scores",
    "return_text",
    "truncate",
    "truncation_direction",
    "parameters",
    "model",
    "api_key",
];
const PREDICT: &[&str] =
    &["inputs", "raw_scores", "truncate", "truncation_direction", "parameters", "model", "api_key"];
const SIMILARITY: &[&str] = &["inputs", "parameters", "model", "api_key"];

/// A request that was read and admitted.
struct TeiRequest {
    fields: Fields,
    client: Client,
    memory: MemoryReservation,
    deadline: Instant,
}

impl TeiRequest {
    async fn read(
        state: &ServerState,
        request: Request,
        names: &'static [&'static str],
    ) -> Result<Self, TeiError> {
        let deadline = Instant::now() + state.limits.deadline;
        let known = KnownFields { names, values: VALUES, unknown: UnknownFields::Named };
        let read = state.read(request, state.limits.input_body, known).await?;
        let ReadRequest { fields, client, memory, .. } = read;
        Ok(Self { fields, client, memory, deadline })
    }

    /// A call for vectors, with the fields that all calls have.
    fn call(&self, fields: &CallFields<'_>, inputs: Vec<EncoderInput>) -> Result<EncoderCall, TeiError> {
        Ok(EncoderCall {
            client: self.client.clone(),
            model: fields.text("model")?,
            needed: EncoderUse::Vectors,
            output: EncoderOutput::Vector(Normalisation::Unit),
            inputs,
            long: fields.long()?,
            prompt: fields.text("prompt_name")?,
            dimensions: fields.number("dimensions")?,
            number_bytes: NUMBER_BYTES,
            text_bytes: 0,
            deadline: self.deadline,
        })
    }

    /// Runs a call, and writes its answer.
    async fn answer(
        self,
        state: &ServerState,
        call: EncoderCall,
        write: impl FnOnce(&EncodedTexts) -> Vec<u8> + Send + 'static,
    ) -> Result<Response, TeiError> {
        let Self { fields, mut memory, .. } = self;
        drop(fields);
        let found = call.run(state, &mut memory).await?;
        let bytes = found.rows.iter().map(Vec::len).sum();
        let body = blocking_if_large(bytes, move || Ok(write(&found))).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], memory.counted(body)).into_response())
    }
}

pub(super) async fn embed(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let read = TeiRequest::read(&state, request, EMBED).await?;
    let fields = CallFields::without_parameters(&read.fields, EMBED)?;
    let is_unit = fields.boolean("normalize")?.unwrap_or(true);
    let normalisation = if is_unit { Normalisation::Unit } else { Normalisation::Left };
    let call = read.call(&fields, fields.inputs()?)?;
    let call = EncoderCall { output: EncoderOutput::Vector(normalisation), ..call };
    read.answer(&state, call, |found| found.json(&found.rows)).await
}

pub(super) async fn embed_all(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let read = TeiRequest::read(&state, request, EMBED_ALL).await?;
    let fields = CallFields::without_parameters(&read.fields, EMBED_ALL)?;
    let call = read.call(&fields, fields.inputs()?)?;
    let (needed, output) = (EncoderUse::TokenStates, EncoderOutput::TokenStates);
    let call = EncoderCall { needed, output, ..call };
    let write = |found: &EncodedTexts| {
        let width = found.loaded.summary.d_model.max(1);
        let tokens: Vec<Vec<&[f32]>> =
            found.rows.iter().map(|states| states.chunks_exact(width).collect()).collect();
        found.json(&tokens)
    };
    read.answer(&state, call, write).await
}

pub(super) async fn rerank(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let read = TeiRequest::read(&state, request, RERANK).await?;
    let fields = CallFields::without_parameters(&read.fields, RERANK)?;
    let query = fields.text("query")?;
    let query = query.ok_or_else(|| TeiError::field("query: nothing, expected a text", HINT))?;
    let texts = texts(fields.value("texts"), "texts")?;
    let kept = fields.is_set("return_text")?.then(|| texts.clone());
    // JSON may escape a byte as six.
    let text_bytes = 6 * kept.iter().flatten().map(String::len).sum::<usize>();
    let query: Arc<str> = query.into();
    let pairs = texts.into_iter().map(|text| EncoderInput::Pair(query.clone(), text)).collect();
    let scores = scores(fields.is_set("raw_scores")?);
    let call = read.call(&fields, pairs)?;
    let (needed, output) = (EncoderUse::PairScores, EncoderOutput::Scores(scores));
    let call = EncoderCall { needed, output, text_bytes, ..call };
    let write = |found: &EncodedTexts| {
        let scores: Vec<f32> = found.rows.iter().flatten().copied().collect();
        found.json(&ranks(&scores, kept))
    };
    read.answer(&state, call, write).await
}

pub(super) async fn predict(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let read = TeiRequest::read(&state, request, PREDICT).await?;
    let fields = CallFields::without_parameters(&read.fields, PREDICT)?;
    let (inputs, is_one) = match PredictInputs::read(fields.value("inputs"))? {
        PredictInputs::One(input) => (vec![input], true),
        PredictInputs::Many(inputs) => (inputs, false),
    };
    let scores = scores(fields.is_set("raw_scores")?);
    let call = read.call(&fields, inputs)?;
    let call = EncoderCall { needed: EncoderUse::Classes, output: EncoderOutput::Scores(scores), ..call };
    let write = move |found: &EncodedTexts| {
        let labels = &found.loaded.summary.labels;
        let all: Vec<_> = found.rows.iter().map(|scores| predictions(scores, labels)).collect();
        if is_one { found.json(&all.first()) } else { found.json(&all) }
    };
    read.answer(&state, call, write).await
}

pub(super) async fn similarity(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let read = TeiRequest::read(&state, request, SIMILARITY).await?;
    let fields = CallFields::new(&read.fields, SIMILARITY)?;
    let inputs = fields.value("inputs").unwrap_or_default();
    let source = inputs["source_sentence"].as_str().ok_or_else(|| {
        TeiError::field("inputs.source_sentence: not a text, expected one to compare the others with", HINT)
    })?;
    let sentences = texts(inputs.get("sentences").cloned(), "inputs.sentences")?;
    let all = std::iter::once(source.to_owned()).chain(sentences).map(EncoderInput::Text).collect();
    let call = read.call(&fields, all)?;
    let parameters = SimilarityParameters::read(fields.value("parameters"))?;
    let call = EncoderCall { long: parameters.long, prompt: parameters.prompt, ..call };
    let write = |found: &EncodedTexts| {
        let (source, others) = found.rows.split_first().expect("the source is the first text");
        let cosines: Vec<f32> = others.iter().map(|other| cosine(source, other) as f32).collect();
        found.json(&cosines)
    };
    read.answer(&state, call, write).await
}

/// The parameters of `/similarity`.
struct SimilarityParameters {
    long: LongTexts,
    prompt: Option<String>,
}

impl SimilarityParameters {
    fn read(value: Option<Value>) -> Result<Self, TeiError> {
        let wrong = |name: &str, expected: &str| {
            TeiError::field(format!("parameters.{name}: expected {expected}"), HINT)
        };
        let members = match value {
            None | Some(Value::Null) => serde_json::Map::new(),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(TeiError::field("parameters: another value, expected an object", HINT)),
        };
        let (mut is_cut, mut direction, mut prompt) = (false, None, None);
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_str(), value) {
                ("truncate", Value::Bool(value)) => is_cut = value,
                ("truncation_direction", Value::String(text)) => direction = Some(text),
                ("prompt_name", Value::String(text)) => prompt = Some(text),
                ("truncate", _) => return Err(wrong("truncate", "true or false")),
                ("truncation_direction" | "prompt_name", _) => return Err(wrong(&name, "a text")),
                _ => {
                    return Err(TeiError::field(
                        format!("unknown field {} in parameters", quoted(&name)),
                        HINT,
                    ));
                }
            }
        }
        Ok(Self { long: long(is_cut, direction.as_deref())?, prompt })
    }
}

/// Texts in an array.
fn texts(value: Option<Value>, name: &str) -> Result<Vec<String>, TeiError> {
    let wrong = || TeiError::field(format!("{name}: expected an array of texts"), HINT);
    let Some(Value::Array(items)) = value else { return Err(wrong()) };
    if items.is_empty() {
        return Err(TeiError::empty(name));
    }
    let text = |item| if let Value::String(text) = item { Some(text) } else { None };
    items.into_iter().map(text).collect::<Option<Vec<String>>>().ok_or_else(wrong)
}

fn scores(is_raw: bool) -> ClassScores {
    if is_raw { ClassScores::Logits } else { ClassScores::Probabilities }
}

/// The call that a model is meant for, as clients send it to the address of the server.
pub(super) async fn root(state: State<Arc<ServerState>>, request: Request) -> Result<Response, TeiError> {
    let encoders = state.scheduler.encoders();
    let Some(first) = encoders.first() else { return Err(no_encoder().into()) };
    if EncoderUse::PairScores.is_meant(&first.summary) {
        rerank(state, request).await
    } else if EncoderUse::Classes.is_meant(&first.summary) {
        predict(state, request).await
    } else {
        embed(state, request).await
    }
}

/// What is known of an encoder: the one that `model` in the query names, or the first.
pub(super) async fn info(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, TeiError> {
    let name = request.uri().query().and_then(|query| query_value(query, "model"));
    let encoders = state.scheduler.encoders();
    let found = encoders.iter().find(|entry| name.as_ref().is_none_or(|name| entry.name == *name));
    let entry = match (found, name) {
        (Some(found), _) => found,
        (None, None) => return Err(no_encoder().into()),
        (None, Some(name)) => {
            let error = format!("no encoder {}", quoted(&name));
            let response = ErrorResponse::new(StatusCode::NOT_FOUND, error, "/v1/models lists all models");
            return Err(response.into());
        }
    };
    let about = state.scheduler.about_encoding();
    let answer = InfoAnswer { name: &entry.name, summary: &entry.summary, about, limits: state.limits };
    Ok(json(&answer.json()))
}

fn no_encoder() -> ErrorResponse {
    let hint = "/v1/models lists all models";
    ErrorResponse::new(StatusCode::FAILED_DEPENDENCY, "this server has no encoder", hint)
}
