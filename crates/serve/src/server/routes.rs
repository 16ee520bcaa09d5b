//! Who answers what.

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

use super::desk::{Client, Desk};
use super::files::{Files, FilesOptions};
use super::limits::RequestLimits;
use super::spoken::Spoken;
use super::{about, libre, v1};
use crate::Error;
use crate::front::body::{BodyLimits, Room};
use crate::front::fields::Fields;
use crate::front::listen::Peer;
use crate::front::{Refusal, form};

/// Paths with the methods that they answer, as `openapi.json` describes them.
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

/// Lets a request in or not, by its key, its address and how many there were, and says who asks.
pub type Admit = dyn Fn(&Parts, &Fields) -> Result<Client, Refusal> + Send + Sync;

/// Whether keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyRule {
    /// There are none.
    #[default]
    None,
    /// Who has one may do more.
    Optional,
    /// Nothing is translated without one.
    Required,
}

/// What every answer needs.
pub struct Shared {
    /// Where texts are translated.
    pub desk: Arc<Desk>,
    /// How much one request may ask for.
    pub limits: RequestLimits,
    /// Translated files.
    pub files: Files,
    /// Whether keys are asked for; there are none.
    pub keys: KeyRule,
    /// Who may ask; everybody, by their address.
    pub admit: Box<Admit>,
    /// The numbers for Prometheus as text; none.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Whether requests are wanted; they are, until the server ends.
    pub is_open: AtomicBool,
    /// Memory for all that is sent.
    pub(super) room: Arc<Room>,
    /// Attention is looked at one request at a time, beside the queue.
    pub(super) looks: Arc<Semaphore>,
}

impl Shared {
    /// For a desk, with everything else as its field says.
    pub fn new(desk: Arc<Desk>, limits: RequestLimits, files: FilesOptions) -> Self {
        Self {
            desk,
            limits,
            files: Files::new(files),
            keys: KeyRule::None,
            admit: Box::new(|parts, _| Ok(by_address(parts))),
            metrics: Box::new(String::new),
            is_open: AtomicBool::new(true),
            // One file must always have room.
            room: Arc::new(Room::new(limits.bodies.max(limits.file))),
            looks: Arc::new(Semaphore::new(1)),
        }
    }

    /// Whether a model is loaded and the server does not end.
    pub fn is_ready(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) && self.desk.models().iter().any(|model| model.is_loaded)
    }

    /// Reads a request of at most `limit` bytes and lets it in.
    pub(super) async fn read(
        &self,
        request: Request,
        limit: usize,
    ) -> Result<(Parts, Fields, Client), Refusal> {
        let limits = BodyLimits { body: limit, room: self.room.clone() };
        let (parts, fields) = form::read(request, &limits).await?;
        // A key that is no text is wrong where none is asked for, too.
        fields.text("api_key")?;
        let client = (self.admit)(&parts, &fields)?;
        Ok((parts, fields, client))
    }

    pub(super) fn spoken(&self) -> Spoken {
        Spoken::new(self.desk.languages())
    }

    /// An error where more texts or characters are sent than are taken.
    pub(super) fn check_texts(&self, texts: &[String]) -> Result<(), Error> {
        let RequestLimits { texts: most, characters, .. } = self.limits;
        at_most(texts.len(), most, "texts")?;
        at_most(texts.iter().map(|text| text.chars().count()).sum(), characters, "characters")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// All routes of the server but those of the explorer.
pub fn routes(shared: Arc<Shared>) -> Router {
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
        .with_state(shared)
}

/// What has no route.
pub(super) async fn unknown(uri: axum::http::Uri) -> Refusal {
    let error = format!("{:?}, expected one of this server's calls", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, error, "/docs lists all calls")
}

/// A client by the address of its connection.
pub fn by_address(parts: &Parts) -> Client {
    let peer = parts.extensions.get::<Peer>();
    Client::of_address(peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip()))
}

/// An answer in JSON.
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

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = error.status();
        // What is wrong with the server's own files is no client's business.
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            let shown = match &error {
                // What a thread said when it broke down may hold a part of the text, which stays out of the log.
                Error::Broken { .. } => "the model failed on this text",
                error => {
                    tracing::error!(%error, "a request failed");
                    "the model cannot be used"
                }
            };
            return Self::new(status, shown, "try again later, or with a shorter text");
        }
        let refusal = Self::new(status, error.to_string(), error.hint());
        match error.retry_after() {
            Some(seconds) => refusal.after(seconds),
            None => refusal,
        }
    }
}
