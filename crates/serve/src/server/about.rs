//! Health, readiness, metrics, and the description of the API.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::routes::{self, ServerState};
use crate::assets::{Asset, find_docs};
use crate::explorer::guard::with_security_headers;
use crate::front::ErrorResponse;
use crate::front::metrics::MEDIA_TYPE;

pub(super) async fn health() -> Response {
    routes::json(&json!({ "status": "ok" }))
}

pub(super) async fn ready(State(state): State<Arc<ServerState>>) -> Result<Response, ErrorResponse> {
    if state.is_ready() {
        return Ok(routes::json(&json!({ "status": "ok" })));
    }
    let error = "no model is loaded, or the server is shutting down";
    Err(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, error, "try again in 1 s").after(1))
}

pub(super) async fn metrics(State(state): State<Arc<ServerState>>) -> Response {
    ([(header::CONTENT_TYPE, MEDIA_TYPE)], (state.metrics)()).into_response()
}

pub(super) async fn openapi(State(state): State<Arc<ServerState>>) -> Response {
    routes::json(&description(&state))
}

pub(super) async fn docs() -> Result<Response, ErrorResponse> {
    file("docs/index.html")
}

/// A file of the page; all lie below `/docs`, so that the page works without the explorer.
pub(super) async fn docs_file(path: Result<Path<String>, PathRejection>) -> Result<Response, ErrorResponse> {
    file(path.as_deref().map_or("", String::as_str))
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> ErrorResponse {
    let error = format!("method {method} is not allowed for {}", uri.path());
    ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, error, "/docs lists all calls")
}

fn file(path: &str) -> Result<Response, ErrorResponse> {
    let Some(asset) = find_docs(path) else {
        let error = "no such file";
        return Err(ErrorResponse::new(StatusCode::NOT_FOUND, error, "the page is at /docs"));
    };
    Ok(with_security_headers(([(header::CONTENT_TYPE, asset.media_type())], asset.text).into_response()))
}

/// `openapi.json` with the languages, models and limits of this server.
fn description(state: &ServerState) -> Value {
    let text = find_docs("openapi.json").map_or("{}", |Asset { text, .. }| text);
    let mut found: Value = serde_json::from_str(text).expect("a test reads this file");
    let schemas = &mut found["components"]["schemas"];
    let languages = state.languages();
    let sources: Vec<&str> = std::iter::once("auto").chain(languages.sources()).collect();
    let models: Vec<String> = state.scheduler.models().into_iter().map(|own| own.name).collect();
    let targets = languages.targets();
    let generators: Vec<String> = state.scheduler.language_models().into_iter().map(|own| own.name).collect();
    let encoders: Vec<String> = state.scheduler.encoders().into_iter().map(|own| own.name).collect();
    let recognisers: Vec<String> = state.scheduler.speech_models().into_iter().map(|own| own.name).collect();
    let classifiers: Vec<String> = state.scheduler.image_models().into_iter().map(|own| own.name).collect();
    for (name, values, is_open) in [
        // Models that do not declare their languages accept any code.
        ("SourceCode", json!(sources), targets.is_empty()),
        ("LanguageCode", json!(targets), targets.is_empty()),
        ("ModelName", json!(models), models.is_empty()),
        ("LanguageModelName", json!(generators), generators.is_empty()),
        ("EncoderName", json!(encoders), encoders.is_empty()),
        ("SpeechModelName", json!(recognisers), recognisers.is_empty()),
        ("ImageModelName", json!(classifiers), classifiers.is_empty()),
    ] {
        if is_open {
            if let Some(schema) = schemas[name].as_object_mut() {
                schema.remove("enum");
            }
        } else {
            schemas[name]["enum"] = values;
        }
    }
    let limits = state.limits;
    for (schema, field) in [("TranslateRequest", "q"), ("V1Request", "text")] {
        let [one, many] = [0, 1].map(|index| format!("/{schema}/properties/{field}/oneOf/{index}"));
        set(schemas, &format!("{one}/maxLength"), limits.characters);
        set(schemas, &format!("{many}/items/maxLength"), limits.characters);
        set(schemas, &format!("{many}/maxItems"), limits.texts);
    }
    for schema in ["TranslateForm", "DetectRequest", "DetectForm"] {
        set(schemas, &format!("/{schema}/properties/q/maxLength"), limits.characters);
    }
    set(schemas, "/V1Request/properties/n_best/maximum", limits.n_best);
    set(schemas, "/V1Request/properties/beam_size/maximum", limits.beam_size);
    set(schemas, "/EncoderInput/anyOf/0/maxLength", limits.characters);
    set(schemas, "/EncoderInput/anyOf/1/items/maxLength", limits.characters);
    for pointer in [
        "/EncoderInput/anyOf/1/maxItems",
        "/EncoderInput/anyOf/3/maxItems",
        "/RerankRequest/properties/texts/maxItems",
        "/PredictRequest/properties/inputs/anyOf/2/maxItems",
    ] {
        set(schemas, pointer, limits.inputs);
    }
    let others = limits.inputs.saturating_sub(1);
    set(schemas, "/SimilarityRequest/properties/inputs/properties/sentences/maxItems", others);
    for schema in ["TranscriptionRequest", "SpeechTranslationRequest"] {
        set(schemas, &format!("/{schema}/properties/beam_size/maximum"), limits.beam_size);
    }
    for schema in ["CompletionRequest", "ChatRequest"] {
        set(schemas, &format!("/{schema}/properties/n/maximum"), limits.samples);
        for field in ["max_tokens", "max_completion_tokens", "min_tokens", "no_repeat_ngram"] {
            set(schemas, &format!("/{schema}/properties/{field}/maximum"), limits.new_tokens);
        }
    }
    found
}

/// Replaces the number at a JSON pointer.
fn set(schemas: &mut Value, pointer: &str, number: usize) {
    if let Some(value) = schemas.pointer_mut(pointer) {
        *value = number.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::routes::ROUTES;

    #[test]
    fn every_route_is_described_and_every_description_has_a_route() {
        let text = find_docs("openapi.json").unwrap().text;
        let found: Value = serde_json::from_str(text).unwrap();
        let mut described: Vec<(String, Vec<String>)> = found["paths"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, methods)| (path.clone(), methods.as_object().unwrap().keys().cloned().collect()))
            .collect();
        let mut served: Vec<(String, Vec<String>)> = ROUTES
            .iter()
            .map(|(path, methods)| {
                ((*path).to_owned(), methods.iter().map(|own| (*own).to_owned()).collect())
            })
            .collect();
        for list in [&mut described, &mut served] {
            list.sort();
            for (_, methods) in list {
                methods.sort();
            }
        }
        assert_eq!(described, served);
    }
}
