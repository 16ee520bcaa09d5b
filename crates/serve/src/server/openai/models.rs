//! `/v1/models`: the translators in our own shape, all other models in OpenAI's.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::super::encoder::{EncoderEntry, EncoderUse};
use super::super::images::ImageEntry;
use super::super::model_registry::{LanguageModelEntry, ModelEntry};
use super::super::routes::{self, ServerState};
use super::super::speech::SpeechEntry;
use super::error::OpenAiError;
use crate::front::ErrorResponse;
use crate::front::fields::quoted;

/// The answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in super::super) struct ModelsAnswer {
    /// All translators.
    models: Vec<ModelEntry>,
    /// `list`, if there are other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    /// All other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<ModelAnswer>>,
}

/// A model, as OpenAI describes one.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ModelAnswer {
    id: String,
    object: &'static str,
    /// Not known; OpenAI's clients expect a number.
    created: u64,
    owned_by: &'static str,
    /// True if it is in memory.
    is_loaded: bool,
    /// Length of its context in tokens, if it has a limit.
    context_length: Option<usize>,
    /// The calls of a model that is no language model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<&'static str>,
}

impl From<EncoderEntry> for ModelAnswer {
    fn from(entry: EncoderEntry) -> Self {
        let EncoderEntry { name, is_loaded, summary } = entry;
        let mut calls = vec!["/v1/embeddings", "/embed", "/similarity"];
        if summary.has_states {
            calls.push("/embed_all");
        }
        if EncoderUse::Classes.fits(&summary) {
            calls.push("/predict");
        }
        if EncoderUse::PairScores.fits(&summary) {
            calls.push("/rerank");
        }
        let own = LanguageModelEntry { name, is_loaded, context: Some(summary.max_len) };
        Self { calls, ..own.into() }
    }
}

impl From<SpeechEntry> for ModelAnswer {
    fn from(entry: SpeechEntry) -> Self {
        let SpeechEntry { name, is_loaded, summary } = entry;
        let mut calls = vec!["/v1/audio/transcriptions"];
        if summary.translates {
            calls.push("/v1/audio/translations");
        }
        Self { calls, ..LanguageModelEntry { name, is_loaded, context: None }.into() }
    }
}

impl From<ImageEntry> for ModelAnswer {
    fn from(entry: ImageEntry) -> Self {
        let ImageEntry { name, is_loaded, .. } = entry;
        Self { calls: vec!["/classify"], ..LanguageModelEntry { name, is_loaded, context: None }.into() }
    }
}

impl From<LanguageModelEntry> for ModelAnswer {
    fn from(entry: LanguageModelEntry) -> Self {
        let LanguageModelEntry { name, is_loaded, context } = entry;
        Self {
            id: name,
            object: "model",
            created: 0,
            owned_by: "polyhead",
            is_loaded,
            context_length: context,
            calls: Vec::new(),
        }
    }
}

impl ModelsAnswer {
    /// All models of a server.
    pub(in super::super) fn of(state: &ServerState) -> Self {
        let data = Self::data(state);
        let is_some = !data.is_empty();
        let object = is_some.then_some("list");
        Self { models: state.scheduler.models(), object, data: is_some.then_some(data) }
    }

    /// All models but translators.
    fn data(state: &ServerState) -> Vec<ModelAnswer> {
        let generators = state.scheduler.language_models().into_iter().map(ModelAnswer::from);
        let texts = generators.chain(state.scheduler.encoders().into_iter().map(ModelAnswer::from));
        let sounds = state.scheduler.speech_models().into_iter().map(ModelAnswer::from);
        texts.chain(sounds).chain(state.scheduler.image_models().into_iter().map(ModelAnswer::from)).collect()
    }
}

/// A model that is no translator by its name.
pub(in super::super) async fn model(
    State(state): State<Arc<ServerState>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, OpenAiError> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let found = ModelsAnswer::data(&state).into_iter().find(|entry| entry.id == name);
    let found = found.ok_or_else(|| {
        let error = format!("no language model or encoder {}", quoted(&name));
        ErrorResponse::new(StatusCode::NOT_FOUND, error, "/v1/models lists all models")
    })?;
    Ok(routes::json(&found))
}
