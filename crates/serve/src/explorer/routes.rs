//! Who answers what, and errors as answers.

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
use super::guard::{guard, safe};
use crate::blocking::blocking;
use crate::wire::Limits;
use crate::{Error, Result, assets};

const JSON: &str = "application/json";

/// Requests that the model works on at once.
const AT_ONCE: usize = 2;

/// Requests that wait for their turn; more are told to come again.
const WAITING: usize = 32;

/// Where the model comes from; it may be another one from time to time, and may take a while to load.
pub(crate) type Source = Arc<dyn Fn() -> Result<Arc<Explorer>> + Send + Sync>;

/// What every answer needs.
#[derive(Clone)]
struct Shared {
    source: Source,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
    /// Bytes of a request.
    limit: usize,
}

impl Shared {
    /// A place among those who wait.
    fn place(&self) -> Result<OwnedSemaphorePermit> {
        let found = format!("{WAITING} requests wait to look at the model");
        self.places.clone().try_acquire_owned().map_err(|_| Error::Busy { found, retry_after: 1 })
    }
}

/// The routes for this machine alone.
pub(super) fn guarded(routes: Router, address: SocketAddr) -> Router {
    routes.layer(from_fn_with_state(address, guard))
}

/// All routes.
pub(crate) fn routes(source: Source) -> Router {
    let limit = source().map_or_else(|_| Limits::default().body, |explorer| explorer.limits.body);
    Router::new()
        .route("/api/model", get(model))
        .route("/api/trace", post(trace))
        .route("/api/translate", post(translate))
        .route("/api/attention", post(attention))
        .route("/api/neurons", post(neurons))
        .fallback(file)
        .layer(DefaultBodyLimit::max(limit))
        .with_state(Shared {
            source,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            places: Arc::new(Semaphore::new(WAITING + AT_ONCE)),
            limit,
        })
}

/// An error as an answer.
pub(super) fn refusal(status: StatusCode, error: &Error) -> Response {
    let body = json!({ "error": error.to_string(), "hint": error.hint() }).to_string();
    (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

async fn file(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let Some(asset) = assets::find(path) else {
        let message = format!("{:?}, expected a file of the page or /api/…", uri.path());
        let hint = "the page is at /".into();
        return refusal(StatusCode::NOT_FOUND, &Error::Request { message, hint });
    };
    safe(([(header::CONTENT_TYPE, asset.media_type())], asset.text).into_response())
}

async fn model(State(shared): State<Shared>) -> Response {
    let work = move || Ok(serde_json::to_string(&(shared.source)()?.model()).expect("plain values"));
    json_or_refusal(blocking(work).await)
}

async fn trace(State(shared): State<Shared>, body: Sent) -> Response {
    answered(shared, body, |explorer, request| explorer.trace(&request, &|_| ControlFlow::Continue(()))).await
}

async fn attention(State(shared): State<Shared>, body: Sent) -> Response {
    answered(shared, body, |explorer, request| explorer.attention(&request)).await
}

async fn neurons(State(shared): State<Shared>, body: Sent) -> Response {
    answered(shared, body, |explorer, request| explorer.neurons(&request)).await
}

/// The translation as it grows, one line of JSON at a time.
async fn translate(State(shared): State<Shared>, body: Sent) -> Response {
    let request = match read(shared.limit, body) {
        Ok(request) => request,
        Err(error) => return refusal(error.status(), &error),
    };
    let place = match shared.place() {
        Ok(place) => place,
        Err(error) => return refusal(error.status(), &error),
    };
    let (lines, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let _place = place;
        // It holds as long as the server runs.
        let turn = shared.turns.clone().acquire_owned();
        let turn = tokio::select! {
            turn = turn => turn,
            // Whoever asked has gone.
            () = lines.closed() => return,
        };
        let Ok(_turn) = turn else { return };
        let last = lines.clone();
        let work = blocking(move || {
            let explorer = (shared.source)()?;
            explorer.trace(&request, &|ids| {
                let line = explorer.growth(ids);
                // Whoever asked may have gone.
                if lines.blocking_send(line).is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        });
        let line = match work.await {
            Ok(trace) => format!("{{\"trace\":{trace}}}\n"),
            Err(error) => format!("{}\n", json!({ "error": error.to_string(), "hint": error.hint() })),
        };
        // The same.
        let _ = last.send(line).await;
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(Lines(receiver))).into_response()
}

type Sent = std::result::Result<Bytes, BytesRejection>;

/// Reads a request, does the work on another thread in turn, and answers with its JSON.
async fn answered<R: DeserializeOwned + Send + 'static>(
    shared: Shared,
    body: Sent,
    work: impl FnOnce(&Explorer, R) -> Result<String> + Send + 'static,
) -> Response {
    let found = async {
        let request = read(shared.limit, body)?;
        let place = shared.place()?;
        // The turn lasts as long as the work, which goes on where the browser has gone away.
        let turn = shared.turns.acquire_owned().await;
        let work = move || {
            let _both = (place, turn);
            work(&*(shared.source)()?, request)
        };
        blocking(work).await
    };
    json_or_refusal(found.await)
}

fn json_or_refusal(found: Result<String>) -> Response {
    match found {
        Ok(json) => ([(header::CONTENT_TYPE, JSON)], json).into_response(),
        Err(error) => refusal(error.status(), &error),
    }
}

fn read<R: DeserializeOwned>(limit: usize, body: Sent) -> Result<R> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Error::TooLarge { found: "a larger request".into(), limit: format!("{limit} bytes") }
        }
        _ => Error::Request { message: rejection.body_text(), hint: "send the request whole".into() },
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let message = format!("{error}, expected a JSON object");
        Error::Request { message, hint: "the page sends the right form; is it as old as the program?".into() }
    })
}

/// Lines from another thread as the body of an answer.
struct Lines(mpsc::Receiver<String>);

impl futures_core::Stream for Lines {
    type Item = std::result::Result<String, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|line| line.map(Ok))
    }
}
