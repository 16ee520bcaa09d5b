//! Idle connections, and connections with many requests.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::{Server, plain, quick, rest, until};
use polyhead_serve::front::listen::ConnectionOptions;

const HELLO: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn many_idle_connections_disturb_no_other() {
    let server = Server::start(plain(), quick());
    let mut idle: Vec<_> = (0..200).map(|_| server.connect()).collect();
    // Half of them have sent a request before.
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(HELLO.as_bytes()).unwrap();
        until(stream, "hello");
    }
    server.wait_for_open(200);
    let begin = Instant::now();
    let answer = server.round_trip("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("hello") && begin.elapsed() < Duration::from_secs(1), "{answer}");
    // They stay open for longer than a head may take.
    std::thread::sleep(Duration::from_millis(400));
    for stream in &mut idle {
        stream.write_all(HELLO.as_bytes()).unwrap();
        until(stream, "hello");
    }
    drop(idle);
    server.is_well();
}

#[test]
fn an_idle_connection_times_out_before_and_after_a_request() {
    let server = Server::start(plain(), ConnectionOptions { idle: Duration::from_millis(300), ..quick() });
    let begin = Instant::now();
    let mut never = server.connect();
    let mut once = server.send(HELLO);
    until(&mut once, "hello");
    assert_eq!((rest(&mut never), rest(&mut once)), (String::new(), String::new()));
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(280) && took < Duration::from_secs(2), "{took:?}");
    server.is_well();
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let server = Server::start(plain(), quick());
    let post = |body: &str| {
        format!("POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    // Many at once, in packets that do not match their borders.
    let all: String = (0..50).map(|index| post(&"a".repeat(index))).collect();
    let mut stream = server.connect();
    for part in all.as_bytes().chunks(97) {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
    for index in 0..50 {
        let answer = until(&mut stream, &format!("\r\n\r\n{index}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(stream);
    server.is_well();
}

#[test]
fn an_unread_body_ends_the_connection_and_other_methods_do_not() {
    let server = Server::start(plain(), quick());
    let begin = Instant::now();
    let mut stream = server.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    until(&mut stream, "\r\n\r\n");
    stream.write_all(b"DELETE /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(until(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 405"));
    stream.write_all(b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close"), "{answer}");
    drop(stream);
    // A request within the rest of a body is not answered.
    let inner = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = server.round_trip(&format!(
        "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 404") && !answer.contains("hello"), "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    server.is_well();
}
