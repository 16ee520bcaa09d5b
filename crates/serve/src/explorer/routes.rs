//! The routes of the explorer.
//!
//! A call is read within the memory budget, waits for its turn, reserves the memory that it will need before it begins, and
//! ends at its deadline or when its client has gone. Its answer is counted until it is read.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::call::{Call, Stop, StopOnDrop};
use super::guard::{guard, with_security_headers};
use super::image::BODY;
use super::text::LineCallback;
use super::{EncoderExplorer, Explorer, ImageExplorer, SoundExplorer, TextExplorer};
use crate::blocking::{blocking, blocking_if_large};
use crate::front::ErrorResponse;
use crate::front::body::{self, BodyLimits};
use crate::front::budget::MemoryBudget;
use crate::server::Client;
use crate::wire::ExplorerLimits;
use crate::{Error, Result, assets};

const JSON: &str = "application/json";

/// Calls that wait for their turn; more are refused.
const MAX_WAITING: usize = 32;

/// Returns the explorer of the current model, which a reload may replace; loading may take a while.
pub(crate) type ExplorerSource<E> = Arc<dyn Fn() -> Result<Arc<E>> + Send + Sync>;

/// Options of the routes.
#[derive(Debug, Clone)]
pub(crate) struct ExplorerOptions {
    /// Calls that run at the same time; default: 2.
    pub(crate) running: usize,
    /// Threads of a call; default: all.
    pub(crate) threads: Option<usize>,
    /// Time limit of a call, from its request to the end of the work; default: 1 hour.
    pub(crate) deadline: Duration,
    /// Memory of requests, work and answers; default: 8 GiB.
    pub(crate) memory: Arc<MemoryBudget>,
}

impl Default for ExplorerOptions {
    fn default() -> Self {
        let memory = Arc::new(MemoryBudget::new(8 << 30));
        Self { running: 2, threads: None, deadline: Duration::from_secs(3600), memory }
    }
}

/// State that all handlers share; `E` is the explorer of a kind of model.
struct ExplorerState<E> {
    source: ExplorerSource<E>,
    options: ExplorerOptions,
    running: Arc<Semaphore>,
    /// Calls that wait or run, by client, counted like memory: one client leaves as many places as it takes.
    waiting: Arc<MemoryBudget>,
    pool: Option<Arc<rayon::ThreadPool>>,
    /// Maximum bytes of a request.
    limit: usize,
}

// Not derived: the explorer itself is not cloned.
impl<E> Clone for ExplorerState<E> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            options: self.options.clone(),
            running: self.running.clone(),
            waiting: self.waiting.clone(),
            pool: self.pool.clone(),
            limit: self.limit,
        }
    }
}

impl<E> ExplorerState<E> {
    /// The state before the first call; a request has at most `limit` bytes.
    fn new(source: ExplorerSource<E>, options: ExplorerOptions, limit: usize) -> Self {
        let pool = options.threads.and_then(|threads| {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().map(Arc::new).ok()
        });
        Self {
            source,
            running: Arc::new(Semaphore::new(options.running)),
            waiting: Arc::new(MemoryBudget::new(MAX_WAITING + options.running)),
            options,
            pool,
            limit,
        }
    }

    /// Reads and parses a request, and takes a place to wait.
    async fn enter<R: DeserializeOwned + Send + 'static>(&self, request: Request) -> Result<(R, Call)> {
        let client = request.extensions().get::<Client>().cloned();
        let client = client.unwrap_or_else(|| BodyLimits::default().client);
        let stop = Stop::new(self.options.deadline);
        let place = self.waiting.reserve(&client, 1).map_err(|_| {
            let found = "its calls fill the places to wait for the model".into();
            Error::TooManyRequests { found, retry_after: 1 }
        })?;
        let limits = BodyLimits { body: self.limit, budget: self.options.memory.clone(), client };
        let (parts, body) = request.into_parts();
        let (bytes, mut memory) = body::read(&parts.headers, body, &limits).await.map_err(Error::Refused)?;
        memory.grow(4 * bytes.len())?;
        let request = blocking_if_large(bytes.len(), move || parse(&bytes)).await?;
        Ok((request, Call { memory, stop, _place: place, turn: None }))
    }

    /// Waits for a turn of a call.
    async fn turn(&self, mut call: Call) -> Result<Call> {
        let turn = tokio::time::timeout_at(call.stop.deadline().into(), self.running.clone().acquire_owned());
        // The semaphore is never closed.
        call.turn = Some(turn.await.ok().and_then(std::result::Result::ok).ok_or_else(|| call.stop.late())?);
        Ok(call)
    }

    /// Runs `work` on the threads of a call.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// The routes with the checks for a loopback server.
pub(super) fn guarded(routes: Router, address: SocketAddr) -> Router {
    routes.layer(from_fn_with_state(address, guard))
}

/// All routes of a translator.
pub(crate) fn routes(source: ExplorerSource<Explorer>, options: ExplorerOptions) -> Router {
    let limit = source().map_or_else(|_| ExplorerLimits::default().body, |explorer| explorer.limits.body);
    Router::new()
        .route("/api/model", get(model))
        .route("/api/trace", post(trace))
        .route("/api/translate", post(translate))
        .route("/api/attention", post(attention))
        .route("/api/neurons", post(neurons))
        .route("/api/embeddings", post(embeddings))
        .route("/api/compare", post(compare))
        .fallback(file)
        .with_state(ExplorerState::new(source, options, limit))
}

/// All routes of a language model.
pub(super) fn text_routes(explorer: Arc<TextExplorer>, options: ExplorerOptions) -> Router {
    let limit = explorer.limits.body;
    let source: ExplorerSource<TextExplorer> = Arc::new(move || Ok(explorer.clone()));
    Router::new()
        .route("/api/model", get(text_model))
        .route("/api/text", post(text))
        .route("/api/text/trace", post(text_trace))
        .route("/api/text/lens", post(text_lens))
        .route("/api/text/contributions", post(text_contributions))
        .route("/api/text/attention", post(text_attention))
        .route("/api/text/neurons", post(text_neurons))
        .route("/api/compare", post(text_compare))
        .fallback(file)
        .with_state(ExplorerState::new(source, options, limit))
}

/// All routes of an encoder.
pub(super) fn encoder_routes(explorer: Arc<EncoderExplorer>, options: ExplorerOptions) -> Router {
    let limit = explorer.limits.body;
    let source: ExplorerSource<EncoderExplorer> = Arc::new(move || Ok(explorer.clone()));
    Router::new()
        .route("/api/model", get(encoder_model))
        .route("/api/encoder", post(encoder))
        .route("/api/encoder/trace", post(encoder_trace))
        .route("/api/encoder/states", post(encoder_states))
        .route("/api/encoder/attention", post(encoder_attention))
        .route("/api/encoder/neurons", post(encoder_neurons))
        .route("/api/compare", post(encoder_compare))
        .fallback(file)
        .with_state(ExplorerState::new(source, options, limit))
}

/// All routes of an image classifier.
pub(super) fn image_routes(explorer: Arc<ImageExplorer>, options: ExplorerOptions) -> Router {
    let source: ExplorerSource<ImageExplorer> = Arc::new(move || Ok(explorer.clone()));
    Router::new()
        .route("/api/model", get(image_model))
        .route("/api/image", post(image))
        .route("/api/image/attention", post(image_attention))
        .fallback(file)
        .with_state(ExplorerState::new(source, options, BODY))
}

/// All routes of a speech recogniser.
pub(super) fn sound_routes(explorer: Arc<SoundExplorer>, options: ExplorerOptions) -> Router {
    let source: ExplorerSource<SoundExplorer> = Arc::new(move || Ok(explorer.clone()));
    Router::new()
        .route("/api/model", get(sound_model))
        .route("/api/sound", post(sound))
        .route("/api/sound/attention", post(sound_attention))
        .fallback(file)
        .with_state(ExplorerState::new(source, options, BODY))
}

/// An error as a response.
pub(super) fn error_response(status: StatusCode, error: &Error) -> Response {
    let body = json!({ "error": error.to_string(), "hint": error.hint() }).to_string();
    (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

async fn file(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let Some(asset) = assets::find(path) else {
        let message = format!("unknown path {:?}, expected a file of the page or /api/…", uri.path());
        let hint = "the page is at /";
        return error_response(StatusCode::NOT_FOUND, &Error::request(message, hint));
    };
    with_security_headers(([(header::CONTENT_TYPE, asset.media_type())], asset.text).into_response())
}

async fn model(State(state): State<ExplorerState<Explorer>>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

async fn trace(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    let work = |explorer: &Explorer, request, call: &mut Call| {
        explorer.trace(&request, &|_| ControlFlow::Continue(()), call)
    };
    answered(state, request, work).await
}

async fn attention(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.attention(&request, call)).await
}

async fn neurons(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.neurons(&request, call)).await
}

async fn embeddings(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, _| explorer.embeddings(&request)).await
}

async fn compare(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.compare(&request, call)).await
}

/// Streams the growing translation, one line of JSON at a time.
async fn translate(State(state): State<ExplorerState<Explorer>>, request: Request) -> Response {
    let work = |explorer: &Explorer, request, lines: LineCallback<'_>, call: &mut Call| {
        explorer.trace(&request, &|ids: &[u32]| lines(explorer.growth(ids)), call)
    };
    streamed(state, request, work).await
}

async fn text_model(State(state): State<ExplorerState<TextExplorer>>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

/// Streams the growing text, one line of JSON at a time.
async fn text(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    let work = |explorer: &TextExplorer, request, lines: LineCallback<'_>, call: &mut Call| {
        explorer.trace(&request, lines, call)
    };
    streamed(state, request, work).await
}

async fn text_trace(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    let work = |explorer: &TextExplorer, request, call: &mut Call| {
        explorer.trace(&request, &|_| ControlFlow::Continue(()), call)
    };
    answered(state, request, work).await
}

async fn text_lens(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.lens(&request, call)).await
}

async fn text_contributions(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.contributions(&request, call)).await
}

async fn text_attention(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.attention(&request, call)).await
}

async fn text_neurons(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.neurons(&request, call)).await
}

async fn text_compare(State(state): State<ExplorerState<TextExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.compare(&request, call)).await
}

async fn encoder_model(State(state): State<ExplorerState<EncoderExplorer>>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

/// Sends the trace as a line of JSON, as the calls of other models do.
async fn encoder(State(state): State<ExplorerState<EncoderExplorer>>, request: Request) -> Response {
    let work = |explorer: &EncoderExplorer, request, _: LineCallback<'_>, call: &mut Call| {
        explorer.trace(&request, call)
    };
    streamed(state, request, work).await
}

async fn encoder_trace(State(state): State<ExplorerState<EncoderExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.trace(&request, call)).await
}

async fn encoder_states(State(state): State<ExplorerState<EncoderExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.states(&request, call)).await
}

async fn encoder_attention(
    State(state): State<ExplorerState<EncoderExplorer>>,
    request: Request,
) -> Response {
    answered(state, request, |explorer, request, call| explorer.attention(&request, call)).await
}

async fn encoder_neurons(State(state): State<ExplorerState<EncoderExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.neurons(&request, call)).await
}

async fn encoder_compare(State(state): State<ExplorerState<EncoderExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.compare(&request, call)).await
}

async fn image_model(State(state): State<ExplorerState<ImageExplorer>>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

/// Sends the trace as a line of JSON, as the calls of other models do.
async fn image(State(state): State<ExplorerState<ImageExplorer>>, request: Request) -> Response {
    let work = |explorer: &ImageExplorer, request, _: LineCallback<'_>, call: &mut Call| {
        explorer.trace(&request, call)
    };
    streamed(state, request, work).await
}

async fn image_attention(State(state): State<ExplorerState<ImageExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.attention(&request, call)).await
}

async fn sound_model(State(state): State<ExplorerState<SoundExplorer>>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

/// Sends the trace as a line of JSON, as the calls of other models do.
async fn sound(State(state): State<ExplorerState<SoundExplorer>>, request: Request) -> Response {
    let work = |explorer: &SoundExplorer, request, _: LineCallback<'_>, call: &mut Call| {
        explorer.trace(&request, call)
    };
    streamed(state, request, work).await
}

async fn sound_attention(State(state): State<ExplorerState<SoundExplorer>>, request: Request) -> Response {
    answered(state, request, |explorer, request, call| explorer.attention(&request, call)).await
}

/// Streams what `work` says while it runs, and its JSON as the last line.
async fn streamed<E: Send + Sync + 'static, R: DeserializeOwned + Send + 'static>(
    state: ExplorerState<E>,
    request: Request,
    work: impl FnOnce(&E, R, LineCallback<'_>, &mut Call) -> Result<String> + Send + 'static,
) -> Response {
    let (request, call) = match state.enter(request).await {
        Ok(entered) => entered,
        Err(error) => return ErrorResponse::from(error).into_response(),
    };
    let (lines, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let _stop = StopOnDrop(call.stop.clone());
        let turn = tokio::select! {
            turn = state.turn(call) => turn,
            // The client has disconnected.
            () = lines.closed() => return,
        };
        let growing = lines.clone();
        let work = async {
            let mut call = turn?;
            let work = move || {
                let explorer = (state.source)()?;
                let found = state.run(|| {
                    let watcher = |line: String| {
                        // The client may have disconnected.
                        if growing.blocking_send(Bytes::from(line)).is_ok() {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    };
                    work(&explorer, request, &watcher, &mut call)
                });
                Ok(call.finish(found)?.counted("\n"))
            };
            blocking(work).await
        };
        let line = work.await.unwrap_or_else(|error| {
            let ErrorResponse { error, hint, .. } = error.into();
            format!("{}\n", json!({ "error": error, "hint": hint })).into()
        });
        // The client may have disconnected.
        let _ = lines.send(line).await;
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(Lines(receiver))).into_response()
}

/// Reads a request, runs `work` on another thread when it is its turn, and answers with its JSON.
async fn answered<E: Send + Sync + 'static, R: DeserializeOwned + Send + 'static>(
    state: ExplorerState<E>,
    request: Request,
    work: impl FnOnce(&E, R, &mut Call) -> Result<String> + Send + 'static,
) -> Response {
    let found = async {
        let (request, call) = state.enter(request).await?;
        // Dropped with this future, when the client has disconnected.
        let _stop = StopOnDrop(call.stop.clone());
        let mut call = state.turn(call).await?;
        let work = move || {
            let explorer = (state.source)()?;
            let found = state.run(|| work(&explorer, request, &mut call));
            Ok(call.finish(found)?.counted(""))
        };
        blocking(work).await
    };
    json_or_error(found.await)
}

fn json_or_error(found: Result<impl Into<Body>>) -> Response {
    match found {
        Ok(json) => ([(header::CONTENT_TYPE, JSON)], json.into()).into_response(),
        Err(error) => ErrorResponse::from(error).into_response(),
    }
}

fn parse<R: DeserializeOwned>(body: &[u8]) -> Result<R> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("{error}, expected a JSON object");
        Error::request(message, "reload the page: it may be of another version of the program")
    })
}

/// Lines from another thread as a response body.
struct Lines(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Lines {
    type Item = std::result::Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|line| line.map(Ok))
    }
}
