//! Clients that send too much, send invalid requests, or disconnect.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;

use super::{LIMIT, Server, plain, quick, rest};

#[test]
fn too_large_a_body_is_413_announced_or_in_chunks() {
    let server = Server::start(plain(), quick());
    // Nothing but the head is sent: the answer does not wait for the body.
    let answer = server.round_trip("POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("a body of 1001 bytes"), "{answer}");
    // A client that sends all of it sees the answer, too.
    let large = "a".repeat(20_000_000);
    let answer = server.round_trip(&format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{large}",
        large.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut stream = server.send("POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20_000 {
        stream.write_all(format!("64\r\n{}\r\n", "a".repeat(100)).as_bytes()).unwrap();
    }
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("a larger body"), "{answer}");
    drop(stream);
    let exact = "a".repeat(LIMIT);
    let answer = server.round_trip(&format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {LIMIT}\r\n\r\n{exact}"
    ));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n1000"), "{answer}");
    server.is_well();
}

#[test]
fn invalid_http_is_refused() {
    let server = Server::start(plain(), quick());
    for text in ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n", "\u{16}\u{3}\u{1}\r\n"]
    {
        let answer = server.round_trip(text);
        assert!(answer.starts_with("HTTP/1.1 400"), "{text:?}: {answer}");
    }
    let answer =
        server.round_trip("POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("incomplete body"), "{answer}");
    let answer = server.round_trip(&format!("GET /hello HTTP/1.1\r\nX-A: {}\r\n\r\n", "a".repeat(100_000)));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..200).map(|index| format!("X-{index}: a\r\n")).collect();
    let answer = server.round_trip(&format!("GET /hello HTTP/1.1\r\n{many}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    server.is_well();
}

#[test]
fn a_client_that_disconnects_while_sending_leaves_nothing() {
    let server = Server::start(plain(), quick());
    let whole = "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nabcdefghij";
    for end in 0..whole.len() {
        drop(server.send(&whole[..end]));
    }
    server.is_well();
}

#[test]
fn requests_with_wrong_bytes_leave_nothing() {
    let server = Server::start(plain(), quick());
    let whole = "POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        POST /length HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /hello HTTP/1.1\r\nConnection: close\r\n\r\n";
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % end
    };
    let streams: Vec<_> = (0..300)
        .map(|_| {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..next(4) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = next(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let mut stream = server.connect();
            stream.write_all(&bytes).unwrap();
            stream
        })
        .collect();
    for mut stream in streams {
        stream.shutdown(std::net::Shutdown::Write).unwrap_or_default();
        // The connection ends whatever the answer is.
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&bytes));
    }
    server.is_well();
}

/// Counts live instances.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_client_that_disconnects_frees_its_work_before_and_during_the_answer() {
    let count = Arc::new(AtomicUsize::new(0));
    let [work, stream] = [count.clone(), count.clone()];
    let routes = plain()
        .route(
            "/long",
            get(async move || {
                let _running = Running::new(&work);
                std::future::pending::<()>().await;
            }),
        )
        .route("/endless", get(async move || Body::from_stream(Endless(Running::new(&stream)))));
    let server = Server::start(routes, quick());
    for path in ["/long", "/endless"] {
        let mut client = server.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        while count.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if path == "/endless" {
            client.read_exact(&mut vec![0; 100_000]).unwrap();
        }
        drop(client);
        server.wait_for_open(0);
        assert_eq!(count.load(Ordering::SeqCst), 0, "{path}");
        server.is_well();
    }
}

struct Endless(#[expect(dead_code, reason = "held to be dropped")] Running);

impl futures_core::Stream for Endless {
    type Item = Result<&'static str, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Ok("again and again and again and again and again and again and again ")))
    }
}

#[test]
fn a_panicking_handler_is_500_and_the_connection_continues() {
    async fn broken() -> &'static str {
        panic!("broken")
    }
    let routes = plain().merge(Router::new().route("/broken", get(broken)));
    let server = Server::start(routes, quick());
    let answer = server.round_trip(
        "GET /broken HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("the server failed"), "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
    server.is_well();
}
