//! One connection: idle until a byte comes, then hyper's until all that came is answered, then idle again.
//!
//! hyper holds 16 KiB of buffers for each connection that it has. An idle one is taken back from it and is no more than a
//! socket, a timer and a task.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::listen::{ConnectionOptions, Peer};
use super::refusal::Refusal;
use super::seen::Seen;
use super::timed::{Answered, Exchange, TimedBody, TimedStream};

/// Bytes of a head that are read at most; a longer one is answered by 431.
const MOST_HEAD: usize = 32 * 1024;

/// How long an idle connection may still begin a request when the server ends: its client may have sent one already.
const LAST_CALL: Duration = Duration::from_millis(100);

/// How long the rest of a request that nobody reads is thrown away. Closing at once would reset the connection, and the
/// client would never see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// How far the server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Stage {
    /// It runs.
    Open,
    /// Running requests may finish.
    Draining,
    /// Whatever runs ends now.
    Cut,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) routes: Router,
    pub(super) options: ConnectionOptions,
    /// Whether each answer is the last of its connection.
    pub(super) is_ending: AtomicBool,
}

/// Serves a connection to its end. `_open` is dropped then, before the receiver: whoever waits for the last receiver finds
/// the counts as they are.
pub(super) async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    mut stage: watch::Receiver<Stage>,
    _open: impl Send,
) {
    let mut rest = Bytes::new();
    loop {
        if rest.is_empty() && !is_readable(&stream, shared.options.idle, &mut stage).await {
            return;
        }
        // In a box of its own, so that an idle connection has no room for it.
        let exchanged = Box::pin(exchange(stream, rest, peer, &shared, &mut stage)).await;
        let Some(idle) = exchanged else { return };
        (stream, rest) = idle;
    }
}

/// Waits for the next request; false where none will come.
async fn is_readable(stream: &TcpStream, idle: Duration, stage: &mut watch::Receiver<Stage>) -> bool {
    let ready = tokio::select! {
        biased;
        ready = timeout(idle, stream.readable()) => ready,
        () = reached(stage, Stage::Draining) => timeout(LAST_CALL, stream.readable()).await,
    };
    matches!(ready, Ok(Ok(())))
}

/// Waits until the server's end has come so far. A server that is gone has come all the way.
async fn reached(stage: &mut watch::Receiver<Stage>, least: Stage) {
    let _ = stage.wait_for(|stage| *stage >= least).await;
}

/// Answers all that comes until the connection is idle, and gives it back with what was read too much; none if it ended.
async fn exchange(
    stream: TcpStream,
    rest: Bytes,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    stage: &mut watch::Receiver<Stage>,
) -> Option<(TcpStream, Bytes)> {
    let state = Arc::new(Exchange::new());
    let stream = TimedStream::new(stream, rest, state.clone(), &shared.options);
    let handler = Handler {
        routes: TowerToHyperService::new(shared.routes.clone()),
        peer,
        shared: shared.clone(),
        exchange: state.clone(),
    };
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(MOST_HEAD).max_header_size(MOST_HEAD);
    let mut connection = builder.serve_connection(TokioIo::new(stream), handler);
    let mut is_draining = false;
    let ended = loop {
        let next = poll_fn(|context| match connection.poll_without_shutdown(context) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if state.is_idle() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            ended = next => break ended,
            () = reached(stage, if is_draining { Stage::Cut } else { Stage::Draining }) => {
                if is_draining {
                    return None;
                }
                is_draining = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    // A head that cannot be read was answered too, and its client may still be sending.
    let has_unread = match &ended {
        None => false,
        Some(Ok(())) => state.has_unread(),
        Some(Err(error)) => error.is_parse(),
    };
    let is_idle = ended.is_none();
    let parts = connection.into_parts();
    let stream = parts.io.into_inner().into_inner();
    if has_unread {
        linger(stream).await;
        return None;
    }
    // Even an empty one holds the whole buffer that it was cut from.
    let rest = if parts.read_buf.is_empty() { Bytes::new() } else { parts.read_buf };
    is_idle.then_some((stream, rest))
}

/// Says that no more will be sent, and throws away what comes until the other side ends.
async fn linger(mut stream: TcpStream) {
    let all = async {
        poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await?;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut buffer) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    };
    // Nobody is left to be told.
    let _ = timeout(LINGER, all).await;
}

/// The routes as hyper calls them.
struct Handler {
    routes: TowerToHyperService<Router>,
    peer: SocketAddr,
    shared: Arc<Shared>,
    exchange: Arc<Exchange>,
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<Seen<Answered>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.exchange.begin();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Peer(self.peer));
        let body = TimedBody::new(body, self.exchange.clone(), &self.shared.options);
        let answer = self.routes.call(Request::from_parts(parts, Body::new(body)));
        let exchange = self.exchange.clone();
        let shared = self.shared.clone();
        Box::pin(async move {
            let mut response = caught(answer).await;
            // hyper closes a connection whose answer says so. Where a body was left unread, what comes next could be the rest
            // of it.
            if shared.is_ending.load(Ordering::Relaxed) || exchange.has_unread() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Seen::new(body, Answered(exchange))))
        })
    }
}

/// The answer, or 500 where the handler broke down: one request must not take others on its connection along.
async fn caught(answer: impl Future<Output = Result<Response<Body>, Infallible>>) -> Response<Body> {
    let mut answer = std::pin::pin!(answer);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        if let Ok(polled) = polled {
            return polled.map(|Ok(response)| response);
        }
        // What was said may hold a part of a text; where it was said is logged by the hook of panics.
        tracing::error!("a request broke down");
        let hint = "the server's log says more";
        Poll::Ready(
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed", hint).into_response(),
        )
    })
    .await
}
