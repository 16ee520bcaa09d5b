//! A body that somebody looks at while it goes by.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Whoever looks; it is dropped with the body.
pub(super) trait Look {
    /// So many bytes have gone by; whether they were the last.
    fn passed(&mut self, bytes: u64, is_last: bool);
}

/// The body, unchanged, and who looks at it.
#[derive(Debug)]
pub(super) struct Seen<L> {
    body: Body,
    look: L,
}

impl<L: Look> Seen<L> {
    pub(super) fn new(body: Body, look: L) -> Self {
        Self { body, look }
    }
}

impl<L: Look + Unpin> HttpBody for Seen<L> {
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
        self.look.passed(bytes, is_last);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
