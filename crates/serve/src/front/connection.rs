//! One connection: idle until a byte arrives, then served by hyper until every received request is answered, then idle again.
//!
//! hyper holds 16 KiB of buffers for each of its connections. An idle connection is taken back from hyper and costs no more
//! than a socket, a timer and a task.

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
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
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

use super::error_response::ErrorResponse;
use super::listen::{ConnectionOptions, Peer};
use super::observed_body::ObservedBody;
use super::timed::{Exchange, ResponseEnd, TimedBody, TimedStream};

/// Maximum bytes of a request head; a longer one is answered with 431.
const MAX_HEAD: usize = 32 * 1024;

/// Time for idle connections to begin a request when the server shuts down: the client may have sent one already.
const LAST_CALL: Duration = Duration::from_millis(100);

/// Time during which the unread rest of a request is discarded. Closing at once would reset the connection, and the client
/// would never see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// Stage of the server's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Stage {
    /// The server runs.
    Open,
    /// Running requests may finish.
    Draining,
    /// Running requests are cut off.
    Cut,
}

/// State that all connections share.
#[derive(Debug)]
pub(super) struct ConnectionContext {
    pub(super) routes: Router,
    pub(super) options: ConnectionOptions,
    /// True if every answer is the last of its connection.
    pub(super) is_ending: AtomicBool,
}

/// The answer to a connection for which its client has no share left.
const REFUSAL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
Content-Length: 97\r\n\r\n\
{\"error\":\"too many connections of this client\",\"hint\":\"close idle connections; try again in 1 s\"}";

/// Memory of a connection while hyper serves it: its buffers, and the largest head.
const ACTIVE_BYTES: usize = 64 << 10;

/// Closes a connection with an answer, without waiting for anything.
pub(super) fn refuse(stream: TcpStream) {
    // The socket is new, so its buffer is empty; and if it takes nothing, the client sees the connection close.
    if let Ok(mut stream) = stream.into_std() {
        let _ = std::io::Write::write(&mut stream, REFUSAL);
    }
}

/// Serves a connection to its end. `_open` is dropped before the receiver, so the counts are right once the last receiver is gone.
pub(super) async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    context: Arc<ConnectionContext>,
    mut stage: watch::Receiver<Stage>,
    _open: impl Send,
) {
    let mut rest = Bytes::new();
    loop {
        if rest.is_empty() && !is_readable(&stream, context.options.idle, &mut stage).await {
            return;
        }
        let client = context.options.client(peer).zip(context.options.memory.as_ref());
        let memory = client.map(|(client, memory)| memory.reserve(&client, ACTIVE_BYTES));
        if matches!(memory, Some(Err(_))) {
            return refuse(stream);
        }
        // Boxed, so that the future of an idle connection stays small.
        let exchanged = Box::pin(exchange(stream, rest, peer, &context, &mut stage)).await;
        let Some(idle) = exchanged else { return };
        (stream, rest) = idle;
    }
}

/// Waits for the next request; false if the connection should end.
async fn is_readable(stream: &TcpStream, idle: Duration, stage: &mut watch::Receiver<Stage>) -> bool {
    let ready = tokio::select! {
        biased;
        ready = timeout(idle, stream.readable()) => ready,
        () = reached(stage, Stage::Draining) => timeout(LAST_CALL, stream.readable()).await,
    };
    matches!(ready, Ok(Ok(())))
}

/// Waits until the shutdown has reached a stage; a dropped sender counts as the last stage.
async fn reached(stage: &mut watch::Receiver<Stage>, least: Stage) {
    let _ = stage.wait_for(|stage| *stage >= least).await;
}

/// Answers requests until the connection is idle, and returns it with any surplus bytes; none if it ended.
async fn exchange(
    stream: TcpStream,
    rest: Bytes,
    peer: SocketAddr,
    context: &Arc<ConnectionContext>,
    stage: &mut watch::Receiver<Stage>,
) -> Option<(TcpStream, Bytes)> {
    let state = Arc::new(Exchange::new());
    let stream = TimedStream::new(stream, rest, state.clone(), &context.options);
    let handler = Handler {
        routes: TowerToHyperService::new(context.routes.clone()),
        peer,
        context: context.clone(),
        exchange: state.clone(),
    };
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(MAX_HEAD).max_header_size(MAX_HEAD);
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
    // hyper has answered an invalid head, too, and its client may still be sending.
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
    // Even an empty slice would keep the whole buffer alive.
    let rest = if parts.read_buf.is_empty() { Bytes::new() } else { parts.read_buf };
    is_idle.then_some((stream, rest))
}

/// Shuts down the sending side, and discards received bytes until the client closes.
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
    // The answer has been sent, so an error here has no consequence.
    let _ = timeout(LINGER, all).await;
}

/// The routes as a hyper service.
struct Handler {
    routes: TowerToHyperService<Router>,
    peer: SocketAddr,
    context: Arc<ConnectionContext>,
    exchange: Arc<Exchange>,
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<ObservedBody<ResponseEnd>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.exchange.begin();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Peer(self.peer));
        let body = TimedBody::new(body, self.exchange.clone(), &self.context.options);
        let answer = self.routes.call(Request::from_parts(parts, Body::new(body)));
        let exchange = self.exchange.clone();
        let context = self.context.clone();
        Box::pin(async move {
            let mut response = catch_panics(answer).await;
            // hyper closes a connection after `Connection: close`. After an unread body, the next bytes could be its rest.
            if context.is_ending.load(Ordering::Relaxed) || exchange.has_unread() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            add_security_headers(response.headers_mut());
            Ok(response.map(|body| ObservedBody::new(body, ResponseEnd(exchange))))
        })
    }
}

/// Headers of every answer: no content is what its bytes look like, and no page of another origin embeds it, unless CORS
/// allows that.
fn add_security_headers(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.entry(policy).or_insert(HeaderValue::from_static("same-origin"));
}

/// The answer, or 500 if the handler panicked: one request must not end the others of its connection.
async fn catch_panics(answer: impl Future<Output = Result<Response<Body>, Infallible>>) -> Response<Body> {
    let mut answer = std::pin::pin!(answer);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        if let Ok(polled) = polled {
            return polled.map(|Ok(response)| response);
        }
        // The message may contain a part of a text; the panic hook logs the location.
        tracing::error!("a request handler panicked");
        let hint = "see the server's log";
        Poll::Ready(
            ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed", hint).into_response(),
        )
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_a_complete_answer() {
        let text = std::str::from_utf8(REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
