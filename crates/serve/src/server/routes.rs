//! The routes of the server, and the state that its handlers share.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::files::{FilesOptions, TranslatedFiles};
use super::language_set::LanguageSet;
use super::limits::RequestLimits;
use super::scheduler::{Client, Scheduler};
use super::{about, libre, v1};
use crate::Error;
use crate::front::body::{BodyLimits, MemoryBudget};
use crate::front::fields::Fields;
use crate::front::listen::Peer;
use crate::front::{ErrorResponse, form};

/// Paths and their methods, as `openapi.json` describes them.
pub const ROUTES: &[(&str, &[&str])] = &[
    ("/translate", &["post", "get"]),
    ("/detect", &["post", "get"]),
    ("/languages", &["get"]),
    ("/frontend/settings", &["get"]),
    ("/translate_file", &["post"]),
    ("/download_file/{id}", &["get"]),
    ("/v1/translate", &["post"]),
    ("/v1/models", &["get"]),
    ("/health", &["get"]),
    ("/ready", &["get"]),
    ("/metrics", &["get"]),
    ("/openapi.json", &["get"]),
    ("/docs", &["get"]),
];

/// Checks key and rate of a request, and returns its client.
pub type AdmissionCheck = dyn Fn(&Parts, &Fields) -> Result<Client, ErrorResponse> + Send + Sync;

/// The rule for API keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyPolicy {
    /// The server has no keys.
    #[default]
    None,
    /// A key is optional and may have a rate of its own.
    Optional,
    /// Requests without a key are refused.
    Required,
}

/// State that all handlers share.
pub struct ServerState {
    /// The scheduler.
    pub scheduler: Arc<Scheduler>,
    /// Limits on one request.
    pub limits: RequestLimits,
    /// Translated files.
    pub files: TranslatedFiles,
    /// The rule for API keys; default: none.
    pub keys: KeyPolicy,
    /// Admission of requests; default: all, with the address as the client.
    pub admit: Box<AdmissionCheck>,
    /// The metrics in Prometheus' text format; default: empty.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// False once the server is shutting down.
    pub is_open: AtomicBool,
    /// Memory budget of all request bodies.
    pub(super) body_budget: Arc<MemoryBudget>,
    /// Permit for tracing attention: one request at a time, beside the queue.
    pub(super) traces: Arc<Semaphore>,
}

impl ServerState {
    /// State with this scheduler, these limits, and the defaults of all other fields.
    pub fn new(scheduler: Arc<Scheduler>, limits: RequestLimits, files: FilesOptions) -> Self {
        Self {
            scheduler,
            limits,
            files: TranslatedFiles::new(files),
            keys: KeyPolicy::None,
            admit: Box::new(|parts, _| Ok(by_address(parts))),
            metrics: Box::new(String::new),
            is_open: AtomicBool::new(true),
            // One file must always fit.
            body_budget: Arc::new(MemoryBudget::new(limits.bodies.max(limits.file))),
            traces: Arc::new(Semaphore::new(1)),
        }
    }

    /// True if a model is loaded and the server is not shutting down.
    pub fn is_ready(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) && self.scheduler.models().iter().any(|model| model.is_loaded)
    }

    /// Reads a request of at most `limit` bytes and admits it.
    pub(super) async fn read(
        &self,
        request: Request,
        limit: usize,
    ) -> Result<(Parts, Fields, Client), ErrorResponse> {
        let limits = BodyLimits { body: limit, budget: self.body_budget.clone() };
        let (parts, fields) = form::read(request, &limits).await?;
        // A key that is not a string is an error even where no key is needed.
        fields.text("api_key")?;
        let client = (self.admit)(&parts, &fields)?;
        Ok((parts, fields, client))
    }

    pub(super) fn languages(&self) -> LanguageSet {
        LanguageSet::new(self.scheduler.languages())
    }

    /// Checks the number of texts and characters.
    pub(super) fn check_texts(&self, texts: &[String]) -> Result<(), Error> {
        let RequestLimits { texts: most, characters, .. } = self.limits;
        at_most(texts.len(), most, "texts")?;
        at_most(texts.iter().map(|text| text.chars().count()).sum(), characters, "characters")
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// All routes of the server except the explorer's.
pub fn routes(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/translate", post(libre::translate).get(libre::translate))
        .route("/detect", post(libre::detect).get(libre::detect))
        .route("/languages", get(libre::languages))
        .route("/frontend/settings", get(libre::settings))
        .route("/translate_file", post(libre::translate_file))
        .route("/download_file/{id}", get(libre::download_file))
        .route("/v1/translate", post(v1::translate))
        .route("/v1/models", get(v1::models))
        .route("/health", get(about::health))
        .route("/ready", get(about::ready))
        .route("/metrics", get(about::metrics))
        .route("/openapi.json", get(about::openapi))
        .route("/docs", get(about::docs))
        .route("/docs/{*path}", get(about::docs_file))
        .method_not_allowed_fallback(about::wrong_method)
        .with_state(state)
}

/// The answer for unknown paths.
pub(super) async fn unknown(uri: axum::http::Uri) -> ErrorResponse {
    let error = format!("unknown path {:?}", uri.path());
    ErrorResponse::new(StatusCode::NOT_FOUND, error, "/docs lists all calls")
}

/// The client at the peer address of the connection.
pub fn by_address(parts: &Parts) -> Client {
    let peer = parts.extensions.get::<Peer>();
    Client::from_address(peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip()))
}

/// A JSON answer.
pub(super) fn json(answer: &impl Serialize) -> Response {
    let body = serde_json::to_string(answer).expect("plain values");
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) fn at_most(found: usize, limit: usize, what: &str) -> Result<(), Error> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { found: format!("{found} {what}"), limit: limit.to_string() })
}

impl From<Error> for ErrorResponse {
    fn from(error: Error) -> Self {
        let status = error.status();
        // Errors of the server's own files are not shown to clients.
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            let shown = match &error {
                // A panic message may contain a part of the text, which stays out of the log.
                Error::Panicked { .. } => "the model failed on this text",
                error => {
                    tracing::error!(%error, "a request failed");
                    "the model cannot be used"
                }
            };
            return Self::new(status, shown, "try again later, or with a shorter text");
        }
        let response = Self::new(status, error.to_string(), error.hint());
        match error.retry_after() {
            Some(seconds) => response.after(seconds),
            None => response,
        }
    }
}
