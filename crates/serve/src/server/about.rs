//! What a server says about itself: health, readiness, metrics, and the description of its calls.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::routes::{self, Shared};
use crate::assets::{Asset, find_docs};
use crate::explorer::guard::safe;
use crate::front::Refusal;

pub(super) async fn health() -> Response {
    routes::json(&json!({ "status": "ok" }))
}

pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    if shared.is_ready() {
        return Ok(routes::json(&json!({ "status": "ok" })));
    }
    let error = "no model is loaded, or the server ends";
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, "come again in 1 s").after(1))
}

pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (shared.metrics)()).into_response()
}

pub(super) async fn openapi(State(shared): State<Arc<Shared>>) -> Response {
    routes::json(&description(&shared))
}

pub(super) async fn docs() -> Result<Response, Refusal> {
    file("docs/index.html")
}

/// Files have their own paths below `/docs`, so that the page needs no explorer beside it.
pub(super) async fn docs_file(path: Result<Path<String>, PathRejection>) -> Result<Response, Refusal> {
    file(path.as_deref().map_or("", String::as_str))
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let error = format!("{method} {}, expected another method", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "/docs lists all calls")
}

fn file(path: &str) -> Result<Response, Refusal> {
    let Some(asset) = find_docs(path) else {
        let error = "no such file, expected one of the page";
        return Err(Refusal::new(StatusCode::NOT_FOUND, error, "the page is at /docs"));
    };
    Ok(safe(([(header::CONTENT_TYPE, asset.media_type())], asset.text).into_response()))
}

/// `openapi.json` with the languages, models and limits of this server.
fn description(shared: &Shared) -> Value {
    let text = find_docs("openapi.json").map_or("{}", |Asset { text, .. }| text);
    let mut found: Value = serde_json::from_str(text).expect("a test reads this file");
    let schemas = &mut found["components"]["schemas"];
    let spoken = shared.spoken();
    let sources: Vec<&str> = std::iter::once("auto").chain(spoken.sources()).collect();
    let models: Vec<String> = shared.desk.models().into_iter().map(|own| own.name).collect();
    let targets = spoken.targets();
    for (name, values) in
        [("SourceCode", json!(sources)), ("LanguageCode", json!(targets)), ("ModelName", json!(models))]
    {
        // A model may not say its languages; then any may be tried.
        if targets.is_empty() && name != "ModelName" {
            if let Some(schema) = schemas[name].as_object_mut() {
                schema.remove("enum");
            }
        } else {
            schemas[name]["enum"] = values;
        }
    }
    let limits = shared.limits;
    for (schema, field) in [("TranslateRequest", "q"), ("V1Request", "text")] {
        let [one, many] = [0, 1].map(|place| format!("/{schema}/properties/{field}/oneOf/{place}"));
        set(schemas, &format!("{one}/maxLength"), limits.characters);
        set(schemas, &format!("{many}/items/maxLength"), limits.characters);
        set(schemas, &format!("{many}/maxItems"), limits.texts);
    }
    for schema in ["TranslateForm", "DetectRequest", "DetectForm"] {
        set(schemas, &format!("/{schema}/properties/q/maxLength"), limits.characters);
    }
    set(schemas, "/V1Request/properties/n_best/maximum", limits.n_best);
    set(schemas, "/V1Request/properties/beam_size/maximum", limits.beam_size);
    found
}

/// Puts a number in the place of another.
fn set(schemas: &mut Value, pointer: &str, number: usize) {
    if let Some(place) = schemas.pointer_mut(pointer) {
        *place = number.into();
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
