//! Access to the explorer, and its limits.

use polyhead_serve::assets::ALL;
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::ExplorerLimits;
use polyhead_serve::{Error, Explorer};
use serde_json::{Value, json};

use crate::client::{get, post, send};
use crate::{engine, explorer};

#[test]
fn the_page_and_all_its_files_are_served_with_security_headers() {
    let port = explorer(ExplorerLimits::default());
    let page = get(port, "/");
    assert!(page.status == 200 && page.body.starts_with("<!doctype html>"));
    for asset in ALL {
        let answer = get(port, &format!("/{}", asset.path));
        assert_eq!((answer.status, answer.body.as_str()), (200, asset.text), "{}", asset.path);
        assert!(
            answer.headers.contains(&format!("content-type: {}", asset.media_type())),
            "{}",
            answer.headers
        );
        for header in [
            "content-security-policy: default-src 'self';",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(answer.headers.contains(header), "{}: {}", asset.path, answer.headers);
        }
    }
    let missing = get(port, "/../Cargo.toml");
    assert_eq!((missing.status, missing.json()["hint"].as_str().unwrap()), (404, "the page is at /"));
    assert_eq!(get(port, "/api/trace").status, 405);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let port = explorer(ExplorerLimits::default());
    let status = |headers: &[&str]| send(port, ["GET", "/api/model"], headers, "").status;
    let own = [format!("Host: localhost:{port}"), format!("Origin: http://127.0.0.1:{port}")];
    assert_eq!([status(&[]), status(&[&own[0]]), status(&[&own[1]]), status(&[&own[0], &own[1]])], [200; 4]);
    let foreign = [
        format!("Host: evil.example:{port}"),
        "Host: evil.example".into(),
        "Host: 127.0.0.1".into(),
        format!("Host: 127.0.0.1.evil.example:{port}"),
        "Origin: http://evil.example".into(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://evil.example:{port}"),
        "Origin: null".into(),
    ];
    for header in &foreign {
        let answer = send(port, ["GET", "/"], &[header], "");
        assert_eq!(answer.status, 403, "{header}");
        assert!(answer.headers.contains("content-security-policy") && answer.json()["error"].is_string());
    }
    let answer = send(port, ["POST", "/api/trace"], &["Origin: http://evil.example"], "{\"text\": \"a\"}");
    assert_eq!(answer.status, 403);
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let port = explorer(ExplorerLimits::default());
    let cases: [(&str, Value, &str); 9] = [
        ("trace", json!({ "text": "", "as_is": true }), "an empty text, expected a sentence"),
        ("trace", json!({ "text": "a", "colour": 1 }), "unknown field `colour`"),
        ("trace", json!({ "text": "a", "to": "xx" }), "language \"xx\""),
        ("trace", json!({ "text": "a", "prefix": [99999] }), "token 99999, expected one of 0 to 210"),
        (
            "trace",
            change(&json!({ "kind": "cross", "layer": 2, "head": 0, "factor": 0 })),
            "layer 2, expected one of 0 to 1",
        ),
        (
            "trace",
            change(&json!({ "kind": "encoder", "layer": 0, "head": 2, "factor": 0 })),
            "head 2, expected one of 0 to 1",
        ),
        (
            "trace",
            change(&json!({ "kind": "middle", "layer": 0, "head": 0, "factor": 0 })),
            "kind of attention \"middle\", expected encoder, decoder or cross",
        ),
        ("attention", json!({ "source": [], "target": [0], "kind": "cross", "layer": 0 }), "no tokens"),
        (
            "neurons",
            json!({ "source": [0], "target": [0], "kind": "cross", "layer": 0, "head": 4 }),
            "head 4, expected one of 0 to 3",
        ),
    ];
    for (path, body, expected) in cases {
        let answer = post(port, &format!("/api/{path}"), &body);
        let said = answer.json();
        assert_eq!(answer.status, 400, "{said}");
        assert!(said["error"].as_str().unwrap().contains(expected), "{said}");
        assert!(said["hint"].is_string());
    }
    assert_eq!(send(port, ["POST", "/api/trace"], &[], "{").status, 400);
    let streamed = post(port, "/api/translate", &json!({ "text": " ", "as_is": true }));
    assert!(streamed.body.contains("an empty text"), "{}", streamed.body);
}

fn change(head: &Value) -> Value {
    json!({ "text": "a", "intervention": { "heads": [head] } })
}

#[test]
fn limits_are_enforced() {
    let limits = ExplorerLimits { text: 50, tokens: 12, neurons: 4, body: 1000, whole: 5, beam_size: 3 };
    let port = explorer(limits);
    let refused = |path: &str, body: &Value, expected: &str| {
        let answer = post(port, path, body);
        assert_eq!(answer.status, 413, "{}", answer.body);
        assert!(answer.json()["error"].as_str().unwrap().contains(expected), "{}", answer.body);
    };
    refused("/api/trace", &json!({ "text": "a".repeat(2000) }), "expected at most 1000");
    refused("/api/trace", &json!({ "text": "a".repeat(51) }), "too large: 51 characters (limit 50)");
    refused("/api/trace", &json!({ "text": "a", "target": "ö".repeat(51) }), "51 characters");
    refused("/api/trace", &json!({ "text": "x y ".repeat(12), "as_is": true }), "tokens (limit 12)");
    refused("/api/trace", &json!({ "text": "a", "beam_size": 4 }), "too large: 4 hypotheses (limit 3)");
    let five = json!({ "source": [1, 2, 3, 4, 0], "target": [0], "kind": "cross", "layer": 0, "head": 0 });
    refused("/api/neurons", &five, "too large: 5 tokens (limit 4)");
    // The trace of a longer text has one attention site; the others are fetched on demand.
    let answer = post(port, "/api/trace", &json!({ "text": "The teacher reads a book." })).json();
    let kept = answer["trace"]["attention"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["kind"], &kept[0]["layer"]), (1, &json!("cross"), &json!(1)));
    assert_eq!(post(port, "/api/attention", &five).status, 200);
}

#[test]
fn a_port_in_use_is_an_error_and_another_is_found_unless_it_was_given() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Explorer::new(engine(), "opus").listen(Port::Exactly(port)).unwrap_err();
    assert!(matches!(error, Error::Port { port: own, .. } if own == port));
    assert!(error.to_string().starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")));
    let free = Explorer::new(engine(), "opus").listen(Port::Free).unwrap();
    let other = Explorer::new(engine(), "opus").listen(Port::Free).unwrap();
    assert_ne!(free.address().port(), other.address().port());
}
