//! The middleware together: origin checks, metrics and disconnects.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::routing::get;
use polyhead_serve::front::log::{RequestMetrics, log_requests};
use polyhead_serve::front::metrics::{MEDIA_TYPE, Metrics};
use polyhead_serve::front::origin::{Cors, Origins, check_origin};

use super::{Server, plain, quick, until};

/// A server with metrics that accepts the host names of port 5000 and `a`.
fn server(cors: Cors) -> (Server, Arc<RequestMetrics>) {
    let metrics = Arc::new(Metrics::new());
    let requests = Arc::new(RequestMetrics::new(&metrics));
    let origins = Origins::new("127.0.0.1:5000".parse().unwrap(), &["a".into()], cors);
    let routes = plain()
        .route("/metrics", get(async move || ([("content-type", MEDIA_TYPE)], metrics.text())))
        .route("/never", get(async || std::future::pending::<()>().await))
        .layer(from_fn_with_state(Arc::new(origins), check_origin))
        .layer(from_fn_with_state(requests.clone(), log_requests));
    (Server::start(routes, quick()), requests)
}

fn round_trip(server: &Server, line: &str, headers: &str) -> String {
    server.round_trip(&format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let (server, _) = server(Cors::None);
    for headers in [
        "",
        "Host: evil.example\r\n",
        "Host: localhost\r\n",
        "Host: localhost:5000\r\nHost: evil.example\r\n",
        "Host: localhost:5000\r\nOrigin: https://page.example\r\n",
        "Host: localhost:5000\r\nOrigin: null\r\n",
    ] {
        let answer = round_trip(&server, "GET /hello", headers);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("\"hint\""), "{headers}: {answer}");
    }
    let own = "Host: localhost:5000\r\nOrigin: http://localhost:5000\r\n";
    assert!(round_trip(&server, "GET /hello", own).starts_with("HTTP/1.1 200"));
    let before = "Host: a\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n";
    assert!(round_trip(&server, "OPTIONS /length", before).starts_with("HTTP/1.1 403"));
    server.is_well();
}

#[test]
fn allowed_origins_get_the_cors_headers() {
    let (server, _) = server("https://page.example".parse().unwrap());
    let before = "Host: a\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n\
        Access-Control-Request-Headers: content-type,x-own\r\n";
    let answer = round_trip(&server, "OPTIONS /length", before);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    for header in [
        "access-control-allow-origin: https://page.example\r\n",
        "access-control-allow-methods: GET, POST, OPTIONS\r\n",
        "access-control-allow-headers: content-type,x-own\r\n",
        "vary: Origin\r\n",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    let answer = round_trip(&server, "GET /hello", "Host: a\r\nOrigin: https://page.example\r\n");
    assert!(answer.contains("access-control-allow-origin: https://page.example\r\n"), "{answer}");
    let answer = round_trip(&server, "GET /hello", "Host: a\r\nOrigin: https://other.example\r\n");
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("allow-origin"), "{answer}");
    server.is_well();
}

#[test]
fn requests_are_counted_also_after_a_disconnect() {
    let (server, requests) = server(Cors::None);
    let never = server.send("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    while requests.in_flight() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(never);
    server.is_well();
    assert_eq!(requests.in_flight(), 0);
    let answer = round_trip(&server, "GET /metrics", "Host: a\r\n");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{answer}");
    for line in [
        "polyhead_request_seconds_count{route=\"/never\",status=\"gone\"} 1\n",
        "polyhead_request_seconds_count{route=\"/hello\",status=\"2xx\"} 1\n",
        "polyhead_requests_in_flight 1\n",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    assert!(!answer.contains("127.0.0.1"), "{answer}");
}

#[test]
fn expect_100_continue_is_answered_or_refused() {
    let (server, _) = server(Cors::None);
    let head = |length: usize| {
        format!(
            "POST /length HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut stream = server.send(&head(5));
    until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abcde").unwrap();
    assert!(until(&mut stream, "\r\n\r\n5").starts_with("HTTP/1.1 200"));
    drop(stream);
    let mut stream = server.send(&head(5000));
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 413");
    drop(stream);
    server.is_well();
}
