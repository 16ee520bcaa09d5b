//! Texts as server-sent events, while they are generated.
//!
//! The answer begins with the first token. An error before it is a plain error response, a later one an event. A client that
//! disconnects drops the stream, and with it the channel of its texts, which then leave the running batch. What a slow client
//! has not read yet waits as tokens, whose memory is reserved.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Sleep;

use super::super::generation::{LoadedGenerator, Update};
use super::answers::{AnswerHead, Usage, event};
use super::choices::Choices;
use super::error::OpenAiError;
use crate::front::budget::MemoryReservation;

/// Bytes of events that are sent at once.
const EVENT_BYTES: usize = 16 << 10;

/// A response body of events.
pub(super) struct TextEvents {
    pub(super) head: AnswerHead,
    pub(super) choices: Choices,
    pub(super) updates: UnboundedReceiver<Update>,
    /// The update that came before the answer began.
    pub(super) first: Option<Update>,
    /// True for texts whose beginning was sent.
    pub(super) begun: Vec<bool>,
    /// The prompt of each text, if it is repeated.
    pub(super) echoes: Vec<String>,
    pub(super) prompt_tokens: usize,
    pub(super) loaded: Arc<LoadedGenerator>,
    pub(super) timer: Pin<Box<Sleep>>,
    /// The error of a deadline that has passed.
    pub(super) late: OpenAiError,
    pub(super) is_over: bool,
    /// The memory of the request, its texts and its events.
    pub(super) _memory: MemoryReservation,
}

impl TextEvents {
    /// The response.
    pub(super) fn response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
            // A proxy that buffers the answer would defeat streaming.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, Body::from_stream(self)).into_response()
    }

    fn add(&mut self, update: Update, out: &mut String) {
        let choice = update.choice;
        match self.choices.add(update, self.loaded.generator.tokenizer()) {
            Ok(piece) => {
                if !std::mem::replace(&mut self.begun[choice], true) {
                    self.head.begin(choice, self.echoes.get(choice).map(String::as_str), out);
                }
                self.head.piece(piece, out);
                if self.choices.are_finished() {
                    let completion = self.choices.n_tokens();
                    self.head.end(Usage::new(self.prompt_tokens, completion), out);
                    self.is_over = true;
                }
            }
            Err(error) => self.fail(&error.into(), out),
        }
    }

    /// Ends the stream with an error; the texts leave the running batch.
    fn fail(&mut self, error: &OpenAiError, out: &mut String) {
        event(&error.json().to_string(), out);
        self.updates.close();
        self.is_over = true;
    }
}

impl futures_core::Stream for TextEvents {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut out = String::new();
        if let Some(first) = this.first.take() {
            this.add(first, &mut out);
        }
        while !this.is_over && out.len() < EVENT_BYTES {
            match this.updates.poll_recv(context) {
                Poll::Ready(Some(update)) => this.add(update, &mut out),
                Poll::Ready(None) => this.fail(&super::ended(), &mut out),
                Poll::Pending => break,
            }
        }
        if !this.is_over && out.is_empty() && this.timer.as_mut().poll(context).is_ready() {
            let late = this.late.clone();
            this.fail(&late, &mut out);
        }
        match (out.is_empty(), this.is_over) {
            (false, _) => Poll::Ready(Some(Ok(out))),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}
