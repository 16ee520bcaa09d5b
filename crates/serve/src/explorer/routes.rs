//! The routes of the explorer.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Explorer;
use super::guard::{guard, with_security_headers};
use crate::blocking::blocking;
use crate::wire::ExplorerLimits;
use crate::{Error, Result, assets};

const JSON: &str = "application/json";

/// Requests that run at the same time.
const MAX_RUNNING: usize = 2;

/// Requests that wait for their turn; more are refused.
const MAX_WAITING: usize = 32;

/// Returns the explorer of the current model, which a reload may replace; loading may take a while.
pub(crate) type ExplorerSource = Arc<dyn Fn() -> Result<Arc<Explorer>> + Send + Sync>;

/// State that all handlers share.
#[derive(Clone)]
struct ExplorerState {
    source: ExplorerSource,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Maximum bytes of a request.
    limit: usize,
}

impl ExplorerState {
    /// A permit to wait.
    fn wait_permit(&self) -> Result<OwnedSemaphorePermit> {
        let found = format!("{MAX_WAITING} requests are waiting for the model");
        self.waiting.clone().try_acquire_owned().map_err(|_| Error::Busy { found, retry_after: 1 })
    }
}

/// The routes with the checks for a loopback server.
pub(super) fn guarded(routes: Router, address: SocketAddr) -> Router {
    routes.layer(from_fn_with_state(address, guard))
}

/// All routes.
pub(crate) fn routes(source: ExplorerSource) -> Router {
    let limit = source().map_or_else(|_| ExplorerLimits::default().body, |explorer| explorer.limits.body);
    Router::new()
        .route("/api/model", get(model))
        .route("/api/trace", post(trace))
        .route("/api/translate", post(translate))
        .route("/api/attention", post(attention))
        .route("/api/neurons", post(neurons))
        .route("/api/embeddings", post(embeddings))
        .fallback(file)
        .layer(DefaultBodyLimit::max(limit))
        .with_state(ExplorerState {
            source,
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING + MAX_RUNNING)),
            limit,
        })
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

async fn model(State(state): State<ExplorerState>) -> Response {
    let work = move || Ok(serde_json::to_string(&(state.source)()?.model()).expect("plain values"));
    json_or_error(blocking(work).await)
}

async fn trace(State(state): State<ExplorerState>, body: ReceivedBody) -> Response {
    answered(state, body, |explorer, request| explorer.trace(&request, &|_| ControlFlow::Continue(()))).await
}

async fn attention(State(state): State<ExplorerState>, body: ReceivedBody) -> Response {
    answered(state, body, |explorer, request| explorer.attention(&request)).await
}

async fn neurons(State(state): State<ExplorerState>, body: ReceivedBody) -> Response {
    answered(state, body, |explorer, request| explorer.neurons(&request)).await
}

async fn embeddings(State(state): State<ExplorerState>, body: ReceivedBody) -> Response {
    answered(state, body, |explorer, request| explorer.embeddings(&request)).await
}

/// Streams the growing translation, one line of JSON at a time.
async fn translate(State(state): State<ExplorerState>, body: ReceivedBody) -> Response {
    let request = match read(state.limit, body) {
        Ok(request) => request,
        Err(error) => return error_response(error.status(), &error),
    };
    let waiting = match state.wait_permit() {
        Ok(permit) => permit,
        Err(error) => return error_response(error.status(), &error),
    };
    let (lines, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let _waiting = waiting;
        // The semaphore is never closed.
        let turn = state.running.clone().acquire_owned();
        let turn = tokio::select! {
            turn = turn => turn,
            // The client has disconnected.
            () = lines.closed() => return,
        };
        let Ok(_turn) = turn else { return };
        let last = lines.clone();
        let work = blocking(move || {
            let explorer = (state.source)()?;
            explorer.trace(&request, &|ids| {
                let line = explorer.growth(ids);
                // The client may have disconnected.
                if lines.blocking_send(line).is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        });
        let line = match work.await {
            Ok(answer) => answer + "\n",
            Err(error) => format!("{}\n", json!({ "error": error.to_string(), "hint": error.hint() })),
        };
        // The client may have disconnected.
        let _ = last.send(line).await;
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(Lines(receiver))).into_response()
}

type ReceivedBody = std::result::Result<Bytes, BytesRejection>;

/// Reads a request, runs `work` on another thread when it is its turn, and answers with its JSON.
async fn answered<R: DeserializeOwned + Send + 'static>(
    state: ExplorerState,
    body: ReceivedBody,
    work: impl FnOnce(&Explorer, R) -> Result<String> + Send + 'static,
) -> Response {
    let found = async {
        let request = read(state.limit, body)?;
        let waiting = state.wait_permit()?;
        // The permits last as long as the work, which continues after the client has disconnected.
        let turn = state.running.acquire_owned().await;
        let work = move || {
            let _permits = (waiting, turn);
            work(&*(state.source)()?, request)
        };
        blocking(work).await
    };
    json_or_error(found.await)
}

fn json_or_error(found: Result<String>) -> Response {
    match found {
        Ok(json) => ([(header::CONTENT_TYPE, JSON)], json).into_response(),
        Err(error) => error_response(error.status(), &error),
    }
}

fn read<R: DeserializeOwned>(limit: usize, body: ReceivedBody) -> Result<R> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Error::TooLarge { found: "the request".into(), limit: format!("{limit} bytes") }
        }
        _ => Error::request(rejection.body_text(), "send the complete request"),
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let message = format!("{error}, expected a JSON object");
        Error::request(message, "reload the page: it may be of another version of the program")
    })
}

/// Lines from another thread as a response body.
struct Lines(mpsc::Receiver<String>);

impl futures_core::Stream for Lines {
    type Item = std::result::Result<String, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|line| line.map(Ok))
    }
}
