//! Bodies of every media type over a socket.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use polyhead_serve::front::body::BodyLimits;
use polyhead_serve::front::budget::MemoryBudget;
use polyhead_serve::front::form::{self, KnownFields, UnknownFields};

use super::{Server, plain, quick, rest};

const KNOWN: KnownFields = KnownFields { names: &["q"], values: 10, unknown: UnknownFields::Skipped };

async fn fields(request: Request) -> Response {
    match form::read(request, &BodyLimits::default(), KNOWN).await {
        Ok((_, fields, _)) => fields.json().to_string().into_response(),
        Err(error) => error.into_response(),
    }
}

fn server() -> Server {
    Server::start(plain().route("/fields", any(fields)), quick())
}

fn round_trip(server: &Server, line: &str, media_type: Option<&str>, body: &str) -> String {
    let media_type = media_type.map_or(String::new(), |media_type| format!("Content-Type: {media_type}\r\n"));
    let length = body.len();
    server.round_trip(&format!(
        "{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{media_type}Content-Length: {length}\r\n\r\n{body}"
    ))
}

#[test]
fn all_media_types_give_the_same_fields_and_a_get_may_have_a_body() {
    let server = server();
    let multipart = "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na b\r\n--b--\r\n";
    for (line, media_type, body) in [
        ("POST /fields", Some("application/json"), "{\"q\": \"a b\"}"),
        ("POST /fields", None, "{\"q\": \"a b\"}"),
        ("GET /fields", Some("application/json"), "{\"q\": \"a b\"}"),
        ("POST /fields", Some("application/x-www-form-urlencoded"), "q=a+b"),
        ("POST /fields?q=c", Some("application/x-www-form-urlencoded"), "q=a%20b"),
        ("POST /fields", Some("multipart/form-data; boundary=b"), multipart),
        ("GET /fields?q=a+b", None, ""),
    ] {
        let answer = round_trip(&server, line, media_type, body);
        let expected = "\r\n\r\n{\"q\":\"a b\"}";
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(expected), "{line}: {answer}");
    }
    server.is_well();
}

#[test]
fn invalid_bodies_are_refused_with_a_reason() {
    let server = server();
    let deep = "[".repeat(100_000);
    for (status, media_type, body) in [
        (400, Some("application/json"), "{\"q\": "),
        (400, Some("application/json"), "[\"q\"]"),
        (400, Some("application/json"), deep.as_str()),
        (400, Some("application/x-www-form-urlencoded"), "q=%ff"),
        (400, Some("multipart/form-data; boundary=b"), "--b\r\n"),
        (415, Some("text/xml"), "<q>a</q>"),
        (415, None, deep.as_str()),
    ] {
        let answer = round_trip(&server, "POST /fields", media_type, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body:.40}: {answer}");
        assert!(answer.contains("{\"error\":\"") && answer.contains("\"hint\":\""), "{answer}");
    }
    let large = "a".repeat((1 << 20) + 1);
    assert!(round_trip(&server, "POST /fields", None, &large).starts_with("HTTP/1.1 413"));
    server.is_well();
}

#[test]
fn large_bodies_at_once_stay_within_the_memory_budget() {
    // A client may have half of it: one body of 900 bytes, read and parsed.
    let budget = Arc::new(MemoryBudget::new(6100));
    let limits = BodyLimits { body: 1000, budget: budget.clone(), ..BodyLimits::default() };
    let kept =
        axum::routing::post(async move |request: Request| match form::read(request, &limits, KNOWN).await {
            Ok((_, fields, _memory)) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                fields.names().count().to_string().into_response()
            }
            Err(error) => error.into_response(),
        });
    let server = Server::start(plain().route("/kept", kept), quick());
    let body = format!("q={}", "a".repeat(898));
    let request = format!(
        "POST /kept HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 900\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}"
    );
    let streams: Vec<_> = (0..4).map(|_| server.send(&request)).collect();
    let answers: Vec<String> = streams.into_iter().map(|mut stream| rest(&mut stream)).collect();
    let count = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
    assert_eq!((count("HTTP/1.1 200"), count("HTTP/1.1 429")), (1, 3), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.contains("retry-after: 1")), "{answers:?}");
    server.is_well();
    assert_eq!(budget.used(), 0);
}
