//! Slow clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;

use super::{Server, plain, quick, rest, until};

/// Sends a byte of `text` every 20 ms until the server ends the connection; returns the elapsed time.
fn trickle(stream: &mut TcpStream, text: &str) -> Duration {
    let begin = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 1024];
    for byte in text.bytes().cycle() {
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            _ => assert!(begin.elapsed() < Duration::from_secs(5), "the server did not end it"),
        }
    }
    begin.elapsed()
}

#[test]
fn a_slow_head_times_out() {
    let server = Server::start(plain(), quick());
    let took = trickle(&mut server.connect(), "GET /hello HTTP/1.1\r\nX-A: bbbbbbbbbbbbbbbbbbbbbbbbbb");
    assert!(took > Duration::from_millis(280) && took < Duration::from_secs(2), "{took:?}");
    server.is_well();
    // The same after an answer: the timer of the second head begins with its first byte.
    let mut stream = server.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    until(&mut stream, "hello");
    std::thread::sleep(Duration::from_millis(400));
    let took = trickle(&mut stream, "GET /hello HTTP/1.1\r\nX-A: bbbbbbbbbbbbbbbbbbbbbbbbbb");
    assert!(took > Duration::from_millis(280) && took < Duration::from_secs(2), "{took:?}");
    server.is_well();
}

#[test]
fn half_a_head_after_a_request_times_out() {
    let server = Server::start(plain(), quick());
    let mut stream = server.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hel");
    until(&mut stream, "hello");
    stream.write_all(b"lo HTTP/1.1\r\nHost: a\r\n\r\nGET").unwrap();
    until(&mut stream, "hello");
    let begin = Instant::now();
    assert_eq!(rest(&mut stream), "");
    assert!(begin.elapsed() < Duration::from_secs(2));
    server.is_well();
}

#[test]
fn a_slow_body_is_408() {
    let server = Server::start(plain(), quick());
    let head = "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n";
    let begin = Instant::now();
    let answer = server.round_trip(&format!("{head}abc"));
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("more than 300 ms"), "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    server.is_well();
    let mut stream = server.send(head);
    for _ in 0..40 {
        let _ = stream.write_all(b"a");
        std::thread::sleep(Duration::from_millis(25));
    }
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("more than 600 ms"), "{answer}");
    drop(stream);
    server.is_well();
}

#[test]
fn an_unread_answer_times_out() {
    let routes = plain().merge(Router::new().route("/large", get(async || "a".repeat(50_000_000))));
    let server = Server::start(routes, quick());
    let mut stream = server.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_open(1);
    // No more than the sockets' buffers can have been sent.
    server.wait_for_open(0);
    assert!(rest(&mut stream).len() < 50_000_000);
    server.is_well();
}
