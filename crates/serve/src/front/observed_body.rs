//! A body that reports its frames to an observer.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Observer of a body; dropped with it.
pub(super) trait BodyObserver {
    /// Called for each frame with its number of bytes; `is_last` at the end of the body.
    fn on_frame(&mut self, bytes: u64, is_last: bool);
}

/// A body, unchanged, with its observer.
#[derive(Debug)]
pub(super) struct ObservedBody<O> {
    body: Body,
    observer: O,
}

impl<O: BodyObserver> ObservedBody<O> {
    pub(super) fn new(body: Body, observer: O) -> Self {
        Self { body, observer }
    }
}

impl<O: BodyObserver + Unpin> HttpBody for ObservedBody<O> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_last = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        let bytes = match &frame {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => 0,
        };
        self.observer.on_frame(bytes, is_last);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
