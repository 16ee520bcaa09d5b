//! The HTTP front end with real sockets: slow, broken and idle clients, and that none leaves anything behind.

mod accept;
mod broken_clients;
mod drain;
mod forms;
mod idle;
mod pages;
mod slow_clients;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use polyhead_serve::front::body::{self, BodyLimits};
use polyhead_serve::front::listen::{ConnectionOptions, Connections, Drained, bind, serve};
use tokio::sync::oneshot;

/// Maximum bytes of a body.
const LIMIT: usize = 1000;

/// A server on a thread of its own.
pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<Connections>,
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Drained>,
}

/// Timeouts short enough for tests.
pub(crate) fn quick() -> ConnectionOptions {
    let milliseconds = Duration::from_millis;
    ConnectionOptions {
        head: milliseconds(300),
        body: milliseconds(600),
        body_pause: milliseconds(300),
        write: milliseconds(400),
        idle: Duration::from_secs(20),
        most: Some(1000),
        drain: Duration::from_secs(10),
        // All clients of these tests have one address.
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..ConnectionOptions::default()
    }
}

/// `/hello` answers at once, `/length` with the length of the body.
pub(crate) fn plain() -> Router {
    Router::new().route("/hello", get(async || "hello")).route("/length", post(length))
}

async fn length(request: Request) -> Response {
    let (parts, sent) = request.into_parts();
    let limits = BodyLimits { body: LIMIT, ..BodyLimits::default() };
    match body::read(&parts.headers, sent, &limits).await {
        Ok((bytes, _)) => bytes.len().to_string().into_response(),
        Err(error) => error.into_response(),
    }
}

impl Server {
    pub(crate) fn start(routes: Router, options: ConnectionOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            bind("127.0.0.1:0".parse().unwrap()).unwrap()
        };
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Connections::default());
        let counted = connections.clone();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let thread =
            std::thread::spawn(move || runtime.block_on(serve(listener, routes, options, counted, shutdown)));
        Self { address, connections, stop, thread }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Connects and sends.
    pub(crate) fn send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Sends and reads to the end of the connection.
    pub(crate) fn round_trip(&self, text: &str) -> String {
        rest(&mut self.send(text))
    }

    /// Waits until `expected` connections are open.
    pub(crate) fn wait_for_open(&self, expected: usize) {
        let begin = Instant::now();
        while self.connections.open() != expected {
            let open = self.connections.open();
            assert!(begin.elapsed() < Duration::from_secs(5), "{open} are open, expected {expected}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that no connection is left open and the server still answers.
    pub(crate) fn is_well(&self) {
        self.wait_for_open(0);
        let answer = self.round_trip("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        self.wait_for_open(0);
    }

    pub(crate) fn stop(self) -> Drained {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

/// All bytes until the server closes or resets the connection.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// One answer on a connection that stays open, up to `end`.
pub(crate) fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut byte = [0; 1];
    while !text.ends_with(end) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{text}");
        text.push(byte[0] as char);
    }
    text
}
