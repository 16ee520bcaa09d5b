//! Clients that hang up, do not read, ask for too much, or send nonsense: others do not notice, and nothing is left behind.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// A server whose texts go on for as long as a test likes.
fn endless_server(limits: RequestLimits) -> (Running, tempfile::TempDir) {
    let folder = endless();
    let limits = RequestLimits { new_tokens: 100_000, ..limits };
    (Running::new(&[("endless", folder.path().into())], limits), folder)
}

fn forever(more: &Value) -> Value {
    let mut body = json!({ "prompt": "a man", "max_tokens": 90_000, "min_tokens": 90_000, "seed": 1 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Sends a request and reads nothing.
fn begin(server: &Running, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let length = body.len();
    write!(stream, "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}", server.port).unwrap();
    stream
}

fn wait_for_running(server: &Running, expected: usize) {
    let begin = Instant::now();
    while server.state.scheduler.generation_gauges().running != expected {
        let gauges = server.state.scheduler.generation_gauges();
        assert!(begin.elapsed() < Duration::from_secs(20), "{gauges:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_client_that_hangs_up_frees_its_rows_and_its_memory() {
    let (server, _folder) = endless_server(RequestLimits::default());
    for more in [json!({}), json!({ "stream": true }), json!({ "stream": true, "n": 3 })] {
        let mut stream = begin(&server, &forever(&more));
        wait_for_running(&server, more["n"].as_u64().unwrap_or(1) as usize);
        if more.get("stream").is_some() {
            let mut bytes = [0; 4096];
            assert!(stream.read(&mut bytes).unwrap() > 0);
        }
        assert!(server.state.memory.used() > 1 << 20);
        drop(stream);
        server.is_quiet_within(Duration::from_secs(5));
    }
    // Of 40 texts some wait for a row; they go, too.
    let streams: Vec<TcpStream> = (0..10)
        .map(|_| begin(&server, &forever(&json!({ "n": 4, "max_tokens": 5000, "min_tokens": 5000 }))))
        .collect();
    wait_for_running(&server, 24);
    drop(streams);
    server.is_quiet_within(Duration::from_secs(5));
    assert!(server.state.scheduler.generation_gauges().texts == 0);
}

#[test]
fn a_deadline_ends_texts_with_an_error() {
    let limits = RequestLimits { deadline: Duration::from_millis(300), ..RequestLimits::default() };
    let (server, _folder) = endless_server(limits);
    let answer = post(server.port, "/v1/completions", &forever(&json!({})));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &json!("deadline_exceeded")));
    let answer = post(server.port, "/v1/completions", &forever(&json!({ "stream": true })));
    let last: Value = serde_json::from_str(events(&answer.body).last().unwrap()).unwrap();
    assert_eq!((answer.status, &last["error"]["code"]), (200, &json!("deadline_exceeded")));
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn memory_is_reserved_before_the_work_and_what_can_never_be_had_is_refused() {
    let folder = endless();
    let limits = RequestLimits { new_tokens: 100_000, ..RequestLimits::default() };
    let models = [("endless", PathBuf::from(folder.path()))];
    let server = Running::within(&models, limits, Some(60 << 20));
    let answer = post(server.port, "/v1/completions", &forever(&json!({ "n": 16 })));
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (413, &json!("request_too_large")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("MiB of memory for 16 texts"), "{error}");
    // What one client holds already is its own affair: 429; others still have their share.
    server.state.memory.set_limit(200 << 20);
    let held = begin(&server, &forever(&json!({ "stream": true })));
    wait_for_running(&server, 1);
    let bytes = server.state.memory.used();
    server.state.memory.set_limit(2 * bytes + bytes / 2);
    let answer = post(server.port, "/v1/completions", &forever(&json!({})));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    let answer = server.send_as("other", "/v1/completions", &json!({ "prompt": "a", "max_tokens": 3 }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    drop(held);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn hostile_bodies_are_refused_quickly() {
    let server = Running::tiny();
    let many_stops = format!("{{\"prompt\": \"a\", \"stop\": [{}]}}", vec!["\"x\""; 200_000].join(","));
    let many_ids = format!("{{\"prompt\": [{}]}}", vec!["1"; 400_000].join(","));
    let deep = format!("{{\"prompt\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_message =
        format!("{{\"model\": \"chat\", \"messages\": [{{\"content\": {}", "{\"a\":".repeat(100_000));
    let long = json!({ "prompt": "a".repeat(200_000) }).to_string();
    let messages =
        json!({ "model": "chat", "messages": vec![json!({ "role": "user", "content": "a" }); 10_000] })
            .to_string();
    for (path, body, expected) in [
        ("/v1/completions", many_stops, &[413, 400][..]),
        ("/v1/completions", many_ids, &[413]),
        ("/v1/completions", deep, &[400]),
        ("/v1/chat/completions", deep_message, &[400]),
        ("/v1/completions", long, &[413]),
        ("/v1/chat/completions", messages, &[400]),
        ("/v1/completions", "x".repeat(2 << 20), &[413]),
    ] {
        let begin = Instant::now();
        let answer = send(server.port, ["POST", path], &["Content-Type: application/json"], &body);
        assert!(expected.contains(&answer.status), "{}: {}", answer.status, answer.body);
        assert!(answer.json()["error"]["message"].is_string(), "{}", answer.body);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.state.scheduler.generation_gauges().prompt_tokens, 0);
    // It still answers.
    server.complete(&json!({ "prompt": "a", "max_tokens": 1 }));
}

#[test]
fn a_client_that_does_not_read_takes_no_more_than_was_reserved() {
    let (server, _folder) = endless_server(RequestLimits::default());
    let slow = begin(
        &server,
        &forever(&json!({ "stream": true, "logprobs": 20, "max_tokens": 1500, "min_tokens": 1500, "n": 16 })),
    );
    wait_for_running(&server, 16);
    let held = server.state.memory.used();
    // Its texts are finished, whether it reads them or not; what it has not read stays counted.
    wait_for_running(&server, 0);
    assert_eq!(server.state.scheduler.generation_gauges().texts, 16);
    assert_eq!(server.state.memory.used(), held);
    let quick = server.send_as("other", "/v1/completions", &json!({ "prompt": "a", "max_tokens": 3 }));
    assert_eq!(quick.status, 200);
    drop(slow);
    server.is_quiet_within(Duration::from_secs(5));
}
