//! A socket and a request body with timeouts, and the state of the exchange that they share.
//!
//! hyper's own header timeout also runs while a keep-alive connection is idle, so the two could not differ. Here the time of
//! a head begins with its first byte, and an idle connection is not hyper's at all (see `connection.rs`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::listen::ConnectionOptions;
use super::observed_body::BodyObserver;

/// A request's body was too slow.
#[derive(Debug, thiserror::Error)]
#[error("the body took more than {} ms", .0.as_millis())]
pub(super) struct BodyTimeout(
    /// The time limit of the body or of a pause.
    pub(super) Duration,
);

/// State of a connection, shared by its socket, its request and its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    phase: AtomicU8,
    request: AtomicU8,
    is_read_blocked: AtomicBool,
    is_flushed: AtomicBool,
}

/// Nothing has been received since the last answer.
const IDLE: u8 = 0;
/// A part of a head has been received.
const HEAD: u8 = 1;
/// A request is being answered.
const BUSY: u8 = 2;

/// The request's body was read to its end.
const READ: u8 = 0;
/// The body is being read.
const OPEN: u8 = 1;
/// The rest of the body will not be read.
const ABANDONED: u8 = 2;

impl Exchange {
    pub(super) fn new() -> Self {
        Self {
            phase: AtomicU8::new(IDLE),
            request: AtomicU8::new(READ),
            is_read_blocked: AtomicBool::new(false),
            is_flushed: AtomicBool::new(true),
        }
    }

    /// Marks the head as complete: the request begins.
    pub(super) fn begin(&self) {
        self.phase.store(BUSY, Ordering::Relaxed);
    }

    /// True if every received request is answered and the answer sent: hyper holds nothing but its buffers.
    pub(super) fn is_idle(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == IDLE
            && self.request.load(Ordering::Relaxed) == READ
            && self.is_read_blocked.load(Ordering::Relaxed)
            && self.is_flushed.load(Ordering::Relaxed)
    }

    /// True if a part of the request is unread.
    pub(super) fn has_unread(&self) -> bool {
        self.request.load(Ordering::Relaxed) != READ
    }
}

/// A socket with a timeout for a request's head, and a least rate at which an answer is read.
#[derive(Debug)]
pub(super) struct TimedStream {
    stream: TcpStream,
    /// Bytes that were read before and not used.
    rest: Bytes,
    exchange: Arc<Exchange>,
    head: Duration,
    write: Duration,
    /// Bytes that the client must take within `write`.
    least: usize,
    /// Bytes that it has taken since the timer began.
    taken: usize,
    head_began: Instant,
    head_timer: Option<Pin<Box<Sleep>>>,
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    pub(super) fn new(
        stream: TcpStream,
        rest: Bytes,
        exchange: Arc<Exchange>,
        options: &ConnectionOptions,
    ) -> Self {
        Self {
            stream,
            rest,
            exchange,
            head: options.head,
            write: options.write,
            least: (options.least_rate as f64 * options.write.as_secs_f64()) as usize,
            taken: 0,
            head_began: Instant::now(),
            head_timer: None,
            write_timer: None,
        }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream
    }

    /// Starts the timer of a head at its first byte.
    fn received(&mut self) {
        if self.exchange.phase.load(Ordering::Relaxed) == IDLE {
            self.exchange.phase.store(HEAD, Ordering::Relaxed);
            self.head_began = Instant::now();
            self.head_timer = None;
        }
    }

    /// The result of a write; too slow a reader is an error. The time runs from the first write that has to wait until
    /// all is written.
    fn written(
        &mut self,
        wrote: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.exchange.is_flushed.store(false, Ordering::Relaxed);
        if let Poll::Ready(wrote) = wrote {
            self.taken += *wrote.as_ref().unwrap_or(&0);
            return Poll::Ready(wrote);
        }
        loop {
            let end = Instant::now() + self.write;
            let timer = self.write_timer.get_or_insert_with(|| {
                self.taken = 0;
                Box::pin(sleep_until(end))
            });
            ready!(timer.as_mut().poll(context));
            self.write_timer = None;
            if self.taken < self.least.max(1) {
                let message = "the client does not read its answer";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
            }
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            let size = this.rest.len().min(buffer.remaining());
            buffer.put_slice(&this.rest.split_to(size));
            this.received();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.exchange.is_read_blocked.store(read.is_pending(), Ordering::Relaxed);
        if read.is_ready() {
            if buffer.filled().len() > before {
                this.received();
            }
            return read;
        }
        if this.exchange.phase.load(Ordering::Relaxed) != HEAD {
            return Poll::Pending;
        }
        let end = this.head_began + this.head;
        let timer = this.head_timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the request head is incomplete")))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(wrote, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.written(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        if flushed.is_ready() {
            this.write_timer = None;
            this.exchange.is_flushed.store(true, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// A request body with a limit on its total time and on pauses; the time runs while the handler waits for it.
#[derive(Debug)]
pub(super) struct TimedBody {
    body: Incoming,
    exchange: Arc<Exchange>,
    whole: Duration,
    pause: Duration,
    end: Option<Instant>,
    timer: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, exchange: Arc<Exchange>, options: &ConnectionOptions) -> Self {
        let state = if body.is_end_stream() { READ } else { OPEN };
        exchange.request.store(state, Ordering::Relaxed);
        Self { body, exchange, whole: options.body, pause: options.body_pause, end: None, timer: None }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = self.get_mut();
        let whole = this.whole;
        let end = *this.end.get_or_insert_with(|| Instant::now() + whole);
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.timer = None;
            if frame.is_none() || this.body.is_end_stream() {
                this.exchange.request.store(READ, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let pause = this.pause;
        let (timer, limit) = this.timer.get_or_insert_with(|| {
            let next = Instant::now() + pause;
            let limit = if next < end { pause } else { whole };
            (Box::pin(sleep_until(next.min(end))), limit)
        });
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Some(Err(BodyTimeout(*limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        let is_open = self.exchange.request.load(Ordering::Relaxed) == OPEN;
        let state = if self.body.is_end_stream() || !is_open { READ } else { ABANDONED };
        self.exchange.request.store(state, Ordering::Relaxed);
    }
}

/// Marks the exchange as idle when the answer ends.
#[derive(Debug)]
pub(super) struct ResponseEnd(pub(super) Arc<Exchange>);

impl BodyObserver for ResponseEnd {
    fn on_frame(&mut self, _bytes: u64, _is_last: bool) {}
}

impl Drop for ResponseEnd {
    fn drop(&mut self) {
        self.0.phase.store(IDLE, Ordering::Relaxed);
    }
}
