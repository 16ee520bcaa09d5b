//! A translation sentence by sentence, as server-sent events.
//!
//! The answer begins with the first event. What fails before it is an answer like others; what fails later is an event.

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
use super::routes::Shared;
use super::v1::Plan;
use crate::Error;
use crate::front::Refusal;

type Event = Result<String, Refusal>;

/// The answer to a request that wants events.
pub(super) async fn events(shared: Arc<Shared>, plan: Plan) -> Result<Response, Refusal> {
    // There are no more events than sentences, whose number has a limit.
    let (sender, mut receiver) = mpsc::unbounded_channel::<Event>();
    tokio::spawn(async move {
        let sentences = sender.clone();
        let work = plan.run(&shared, move |finished| {
            // Whoever asked may have gone.
            let _ = sentences.send(Ok(event("sentence", &SentenceAnswer::from(finished))));
        });
        let found = tokio::select! {
            found = work => found,
            // Nobody listens any more: what waits in the queue is given up.
            () = sender.closed() => return,
        };
        let last = found.map(|answer| event("done", &answer)).map_err(Refusal::from);
        let _ = sender.send(last);
    });
    let broken = || Err(Error::Broken { found: "it was given up".into() }.into());
    let first = receiver.recv().await.unwrap_or_else(broken)?;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that collect answers would take the point away.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(Events { first: Some(first), receiver })).into_response())
}

/// An event as it goes over the wire.
fn event(name: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("plain values");
    format!("event: {name}\ndata: {data}\n\n")
}

/// Events as the body of an answer.
struct Events {
    first: Option<String>,
    receiver: UnboundedReceiver<Event>,
}

impl futures_core::Stream for Events {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.receiver.poll_recv(context).map(|next| {
            next.map(|next| {
                let told = |no: Refusal| event("error", &json!({ "error": no.error, "hint": no.hint }));
                Ok(next.unwrap_or_else(told))
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
