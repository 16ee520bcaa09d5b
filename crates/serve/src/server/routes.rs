//! The routes of the server, and the state that its handlers share.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
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
use super::{about, image_api, libre, openai, tei, v1};
use crate::Error;
use crate::front::body::{self, BodyLimits};
use crate::front::budget::{MemoryBudget, MemoryReservation};
use crate::front::fields::Fields;
use crate::front::form::{KnownFields, UnknownFields};
use crate::front::listen::Peer;
use crate::front::log::{ClientSlot, LoggedClient};
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
    ("/v1/models/{model}", &["get"]),
    ("/v1/completions", &["post"]),
    ("/v1/chat/completions", &["post"]),
    ("/v1/embeddings", &["post"]),
    ("/v1/audio/transcriptions", &["post"]),
    ("/v1/audio/translations", &["post"]),
    ("/classify", &["post"]),
    ("/embed", &["post"]),
    ("/embed_all", &["post"]),
    ("/rerank", &["post"]),
    ("/predict", &["post"]),
    ("/similarity", &["post"]),
    ("/info", &["get"]),
    ("/health", &["get"]),
    ("/ready", &["get"]),
    ("/metrics", &["get"]),
    ("/openapi.json", &["get"]),
    ("/docs", &["get"]),
];

/// Checks keys and rates.
pub trait Gate: Send + Sync {
    /// Checks what the head of a request says, before anything of its body is read.
    ///
    /// # Errors
    /// 403 for an unknown key, 429 above the rate.
    fn enter(&self, parts: &Parts) -> Result<Entry, ErrorResponse>;

    /// Checks the key in the body, if there is one, and returns the client.
    ///
    /// # Errors
    /// 403 for an unknown or missing key, 429 above its rate.
    fn admit(&self, entry: Entry, key: Option<&str>) -> Result<Client, ErrorResponse>;
}

/// A request whose head has passed the gate.
#[derive(Debug)]
pub struct Entry {
    /// Who is known to call: the key in the head, else the address.
    pub client: Client,
    /// The address.
    pub address: Client,
    /// Where the log finds the client.
    pub(super) slot: Option<ClientSlot>,
    /// The address for the log.
    pub(super) logged: IpAddr,
}

impl Entry {
    /// Tells the log who calls.
    pub(super) fn log(&self) {
        let key = match &self.client {
            Client::Key(name) => Some(name.clone()),
            _ => None,
        };
        if let Some(slot) = &self.slot {
            slot.set(LoggedClient { key, address: self.logged });
        }
    }
}

/// A gate that lets every request pass, with the address as the client.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn enter(&self, parts: &Parts) -> Result<Entry, ErrorResponse> {
        let peer = parts.extensions.get::<Peer>();
        let logged = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        let client = Client::from_address(logged);
        Ok(Entry { address: client.clone(), client, slot: None, logged })
    }

    fn admit(&self, entry: Entry, _: Option<&str>) -> Result<Client, ErrorResponse> {
        Ok(entry.client)
    }
}

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
    pub gate: Arc<dyn Gate>,
    /// The metrics in Prometheus' text format; default: empty.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// False once the server is shutting down.
    pub is_open: AtomicBool,
    /// Memory of all that waits; default: that of the scheduler.
    pub memory: Arc<MemoryBudget>,
    /// Permit for tracing attention: one request at a time, beside the queue.
    pub(super) traces: Arc<Semaphore>,
}

impl ServerState {
    /// State with this scheduler, these limits, and the defaults of all other fields.
    pub fn new(scheduler: Arc<Scheduler>, limits: RequestLimits, files: FilesOptions) -> Self {
        Self {
            memory: scheduler.memory().clone(),
            scheduler,
            limits,
            files: TranslatedFiles::new(files),
            keys: KeyPolicy::None,
            gate: Arc::new(OpenGate),
            metrics: Box::new(String::new),
            is_open: AtomicBool::new(true),
            traces: Arc::new(Semaphore::new(1)),
        }
    }

    /// True if a model is loaded and the server is not shutting down.
    pub fn is_ready(&self) -> bool {
        let is_loaded = || {
            self.scheduler.models().iter().any(|model| model.is_loaded)
                || self.scheduler.language_models().iter().any(|model| model.is_loaded)
                || self.scheduler.encoders().iter().any(|model| model.is_loaded)
                || self.scheduler.speech_models().iter().any(|model| model.is_loaded)
                || self.scheduler.image_models().iter().any(|model| model.is_loaded)
        };
        self.is_open.load(Ordering::Relaxed) && is_loaded()
    }

    /// Admits a request by its head, reads at most `limit` bytes of it, and admits it by the key in its body.
    pub(super) async fn read(
        &self,
        request: Request,
        limit: usize,
        known: KnownFields,
    ) -> Result<ReadRequest, ErrorResponse> {
        let (parts, body) = request.into_parts();
        let entry = self.gate.enter(&parts)?;
        self.scheduler.check_memory()?;
        let limits = BodyLimits { body: limit, budget: self.memory.clone(), client: entry.client.clone() };
        let request = Request::from_parts(parts, body);
        let (parts, fields, mut memory) = form::read(request, &limits, known).await?;
        // A key that is not a string is an error even where no key is needed.
        let client = self.gate.admit(entry, fields.text("api_key")?)?;
        memory.give_to(&client);
        Ok(ReadRequest { parts, fields, client, memory })
    }

    /// The same for a request whose body is a file; its fields are in the query.
    pub(super) async fn read_file(
        &self,
        request: Request,
        limit: usize,
    ) -> Result<(ReadRequest, Bytes), ErrorResponse> {
        let (parts, body) = request.into_parts();
        let entry = self.gate.enter(&parts)?;
        self.scheduler.check_memory()?;
        let limits = BodyLimits { body: limit, budget: self.memory.clone(), client: entry.client.clone() };
        let (bytes, mut memory) = body::read(&parts.headers, body, &limits).await?;
        let fields = form::urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?;
        let client = self.gate.admit(entry, fields.text("api_key")?)?;
        memory.give_to(&client);
        Ok((ReadRequest { parts, fields, client, memory }, bytes))
    }

    /// The known fields of a call, with as many values as texts are allowed.
    pub(super) fn known(&self, names: &'static [&'static str], unknown: UnknownFields) -> KnownFields {
        KnownFields { names, values: 2 * self.limits.texts + 512, unknown }
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

/// A request that was read and admitted.
pub(super) struct ReadRequest {
    pub(super) parts: Parts,
    pub(super) fields: Fields,
    pub(super) client: Client,
    /// The memory of the request, and later of its answer.
    pub(super) memory: MemoryReservation,
}

/// Changes a reservation; an error that says how much is too much for one client. `what` it is for is named in the error.
pub(super) fn reserve(memory: &mut MemoryReservation, bytes: usize, what: &str) -> Result<(), Error> {
    let most = memory.largest();
    if bytes > most {
        let [found, limit] = [bytes, most].map(|bytes| format!("{} MiB", bytes.div_ceil(1 << 20)));
        return Err(Error::TooLarge { found: format!("about {found} of memory for {what}"), limit });
    }
    Ok(memory.resize(bytes)?)
}

/// Bytes of memory for each byte of text while it is translated: the text in its document, in chunks, in sentences and as a
/// cache key, and its translations in the same.
const TEXT_MEMORY: usize = 16;

/// The same for each further translation of an n-best list.
const CANDIDATE_MEMORY: usize = 4;

/// Memory for translating texts of `bytes` bytes within a document of `whole` bytes, each `n_best` times.
pub(super) fn translation_memory(bytes: usize, whole: usize, n_best: usize) -> usize {
    3 * whole + bytes * (TEXT_MEMORY + CANDIDATE_MEMORY * n_best.saturating_sub(1))
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// All routes of the server except the explorer's.
pub fn routes(state: Arc<ServerState>) -> Router {
    // The explorer of translators is at the same path.
    let scheduler = &state.scheduler;
    let root = if scheduler.translates() {
        Router::new()
    } else if !scheduler.encoders().is_empty() {
        Router::new().route("/", post(tei::root))
    } else if !scheduler.image_models().is_empty() {
        Router::new().route("/", post(image_api::classify))
    } else {
        Router::new()
    };
    Router::new()
        .merge(root)
        .route("/translate", post(libre::translate).get(libre::translate))
        .route("/detect", post(libre::detect).get(libre::detect))
        .route("/languages", get(libre::languages))
        .route("/frontend/settings", get(libre::settings))
        .route("/translate_file", post(libre::translate_file))
        .route("/download_file/{id}", get(libre::download_file))
        .route("/v1/translate", post(v1::translate))
        .route("/v1/models", get(v1::models))
        .route("/v1/models/{model}", get(openai::model))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/embeddings", post(openai::embeddings))
        .route("/v1/audio/transcriptions", post(openai::transcriptions))
        .route("/v1/audio/translations", post(openai::translations))
        .route("/classify", post(image_api::classify))
        .route("/embed", post(tei::embed))
        .route("/embed_all", post(tei::embed_all))
        .route("/rerank", post(tei::rerank))
        .route("/predict", post(tei::predict))
        .route("/similarity", post(tei::similarity))
        .route("/info", get(tei::info))
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

/// A JSON answer.
pub(super) fn json(answer: &impl Serialize) -> Response {
    let body = serde_json::to_string(answer).expect("plain values");
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A JSON answer whose bytes are counted until they are sent.
pub(super) fn counted_json(answer: &impl Serialize, memory: MemoryReservation) -> Response {
    let body = serde_json::to_vec(answer).expect("plain values");
    ([(header::CONTENT_TYPE, "application/json")], memory.counted(body)).into_response()
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
