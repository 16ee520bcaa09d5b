//! Rules that one request each can check: headers, keys, rates, paths, readers of the program.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::cases::Finding;
use super::victim::Setup;

/// All small rules at once.
pub(super) fn small_rules(setup: &Setup) -> Finding {
    let mut failures = Vec::new();
    for (name, check) in [
        ("security headers on every answer", headers as fn(&Setup) -> bool),
        ("an empty api_key does not hide a bearer key, in any case", keys),
        ("a request of another site by GET makes no work", cross_site),
        ("bodies that cannot be parsed count against the rate", rate),
        ("no answer names a path of the machine", paths),
        ("no limit: /dev/zero as input ends with an error", endless_line),
        ("--help to a full device exits with 1", full_device),
    ] {
        if !check(setup) {
            failures.push(name);
        }
    }
    let text =
        if failures.is_empty() { "all 7 hold".into() } else { format!("broken: {}", failures.join("; ")) };
    Finding { name: "small rules", is_held: failures.is_empty(), text }
}

fn headers(setup: &Setup) -> bool {
    let victim = setup.start(&[]);
    let client = victim.client(1);
    [
        "/health",
        "/metrics",
        "/languages",
        "/",
        "/docs",
        "/nowhere",
        "/translate",
        "/download_file/0",
        "/v1/models",
    ]
    .iter()
    .all(|path| {
        client.get(path, "").is_ok_and(|answer| {
            answer.header("x-content-type-options") == Some("nosniff")
                && answer.header("cross-origin-resource-policy") == Some("same-origin")
        })
    })
}

fn keys(setup: &Setup) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    let file = file.to_str().unwrap();
    let output = Command::new(&setup.program).args(["keys", "add", file, "shop"]).output().unwrap();
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let victim = setup.start(&["--keys", file, "--require-key"]);
    let client = victim.client(1);
    let status = |body: serde_json::Value, header: &str| {
        client.post("/translate", &body, header).map_or(0, |own| own.status)
    };
    let body = json!({ "q": "A garden.", "source": "en", "target": setup.to });
    let with = |key: &str| json!({ "q": "A garden.", "source": "en", "target": setup.to, "api_key": key });
    let found = [
        status(body.clone(), ""),
        status(body.clone(), &format!("Authorization: bearer {key}\r\n")),
        status(with(""), &format!("Authorization: BEARER {key}\r\n")),
        status(with(&key), ""),
        status(with("ph_wrong"), ""),
    ];
    found == [403, 200, 200, 200, 403]
}

fn cross_site(setup: &Setup) -> bool {
    let victim = setup.start(&[]);
    let client = victim.client(1);
    let path = format!("/translate?q=Garden&source=en&target={}", setup.to);
    let status = |path: &str, site: &str| {
        client.get(path, &format!("Sec-Fetch-Site: {site}\r\n")).map_or(0, |own| own.status)
    };
    let found = [
        status(&path, "cross-site"),
        status("/detect?q=Garden", "cross-site"),
        status(&path, "same-origin"),
        status(&path, "none"),
        status("/", "cross-site"),
    ];
    found == [403, 403, 200, 200, 200]
}

fn rate(setup: &Setup) -> bool {
    let victim = setup.start(&["--per-minute", "5"]);
    let client = victim.client(1);
    let head = client.head("POST", "/translate", 1, "Content-Type: application/json\r\n");
    let statuses: Vec<u16> = (0..7)
        .map(|_| client.send(&head, b"{", Duration::from_secs(5)).map_or(0, |own| own.status))
        .collect();
    statuses == [400, 400, 400, 400, 400, 429, 429]
}

fn paths(setup: &Setup) -> bool {
    let victim = setup.start(&[]);
    let client = victim.client(1);
    let wrong = [
        ("/translate", json!({ "q": "a", "source": "en", "target": "xx" })),
        (
            "/translate",
            json!({ "q": "a", "source": "en", "target": setup.to, "alternatives": 8, "lexical": ["zzzz", "y"] }),
        ),
        ("/v1/translate", json!({ "text": "a", "model": "nowhere" })),
        ("/v1/translate", json!({ "text": "a", "to": "xx" })),
        ("/v1/translate", json!({ "text": "a", "to": setup.to, "lexical": ["<pad>"] })),
        ("/api/trace", json!({ "text": "a", "to": "xx" })),
        ("/api/trace", json!({ "text": "a", "to": setup.to, "prefix": [4_000_000] })),
        ("/api/embeddings", json!({ "words": ["the", "<pad>"] })),
        ("/api/attention", json!({ "source": [1], "target": [1], "kind": "none", "layer": 0 })),
    ];
    let answers = wrong.iter().filter_map(|(path, body)| client.post(path, body, "").ok());
    let pages = ["/v1/models", "/api/model", "/openapi.json", "/metrics"];
    let pages = pages.iter().filter_map(|path| client.get(path, "").ok());
    let folder = std::env::current_dir().unwrap();
    let parts =
        [folder.to_str().unwrap().to_owned(), "/golden/".into(), "/models/default".into(), ".cache".into()];
    answers.chain(pages).all(|answer| {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        parts.iter().all(|part| !text.contains(part))
    })
}

/// A line without an end: an error, soon, and without much memory.
pub(super) fn endless_line(setup: &Setup) -> bool {
    let mut command = Command::new(&setup.program);
    command.arg("translate").args(["--to", setup.to]);
    if let Some(model) = &setup.model {
        command.args(["--model", model]);
    }
    command.stdin(File::open("/dev/zero").unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code() == Some(1);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

pub(super) fn full_device(setup: &Setup) -> bool {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status =
        Command::new(&setup.program).arg("--help").stdout(full).stderr(Stdio::null()).status().unwrap();
    status.code() == Some(1)
}
