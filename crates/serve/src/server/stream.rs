//! A translation sentence by sentence, as server-sent events.
//!
//! The answer begins with the first event. An error before it is a plain error response; a later error is an event.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::answers::SentenceAnswer;
use super::routes::ServerState;
use super::v1::V1Plan;
use crate::Error;
use crate::front::ErrorResponse;
use crate::front::budget::MemoryReservation;

type Event = Result<String, ErrorResponse>;

/// The answer to a request with `stream`.
pub(super) async fn events(
    state: Arc<ServerState>,
    plan: V1Plan,
    memory: MemoryReservation,
) -> Result<Response, ErrorResponse> {
    // The number of events is bounded by the number of sentences, which is limited, and their memory is reserved until the
    // last is read.
    let (sender, mut receiver) = mpsc::unbounded_channel::<Event>();
    let memory = Arc::new(memory);
    let working = memory.clone();
    tokio::spawn(async move {
        let _memory = working;
        let sentences = sender.clone();
        let work = plan.run(&state, move |finished| {
            // The client may have disconnected.
            let _ = sentences.send(Ok(event("sentence", &SentenceAnswer::from(finished))));
        });
        let found = tokio::select! {
            found = work => found,
            // The client has disconnected: its queued sentences are abandoned.
            () = sender.closed() => return,
        };
        let last = found.map(|(answer, _)| event("done", &answer)).map_err(ErrorResponse::from);
        let _ = sender.send(last);
    });
    let broken = || Err(Error::Panicked { found: "the task was cancelled".into() }.into());
    let first = receiver.recv().await.unwrap_or_else(broken)?;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A proxy that buffers the answer would defeat streaming.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(Events { first: Some(first), receiver, _memory: memory })).into_response())
}

/// The text of an event.
fn event(name: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("plain values");
    format!("event: {name}\ndata: {data}\n\n")
}

/// The events as a response body.
struct Events {
    first: Option<String>,
    receiver: UnboundedReceiver<Event>,
    /// The memory of the request and of its events.
    _memory: Arc<MemoryReservation>,
}

impl futures_core::Stream for Events {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.receiver.poll_recv(context).map(|next| {
            next.map(|next| {
                let failed =
                    |own: ErrorResponse| event("error", &json!({ "error": own.error, "hint": own.hint }));
                Ok(next.unwrap_or_else(failed))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_json() {
        let answer = SentenceAnswer { text: 0, sentence: 1, source: "a\nb".into(), translation: "c".into() };
        assert_eq!(
            event("sentence", &answer),
            "event: sentence\ndata: {\"text\":0,\"sentence\":1,\"source\":\"a\\nb\",\"translation\":\"c\"}\n\n"
        );
    }
}
