//! `polyhead serve`: answers, shutdown, reloading and start-up errors.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::polyhead;

/// A running server and its port.
struct Running {
    child: Child,
    port: u16,
    /// Reads the log, so that the server never waits for room to write.
    log: Option<JoinHandle<String>>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program(arguments).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).unwrap();
            log
        });
        Self { child, port, log: Some(log) }
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(done.unwrap().success());
    }

    /// Stops the server; its exit code and its log.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let log = self.log.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().code(), log)
    }

    fn translate(&self, form: &str) -> (u16, Value) {
        post(self.port, form).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The server may have stopped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyhead"));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/golden/opus");
    command.args(["serve", "--listen", "127.0.0.1:0", "--threads", "2", "--model", golden]).args(arguments);
    command
}

/// Status and body of a form sent to /translate; none if the server is gone.
fn post(port: u16, form: &str) -> Option<(u16, Value)> {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let (status, body) = send(port, ["POST", "/translate"], kind, form)?;
    Some((status, serde_json::from_str(&body).ok()?))
}

/// Status and body of the answer to a request; none if the server is gone.
fn send(port: u16, [method, path]: [&str; 2], headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    write!(stream, "{head}{headers}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = program(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

const FORM: &str = "q=Nobody+slept+well!&source=auto&target=tr";

#[test]
fn the_server_answers_like_translate_and_stops_on_sigterm() {
    let server = Running::start(&["--log", "json"]);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/golden/opus");
    let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["translate", "--model", golden, "--to", "tr", "Nobody slept well!"])
        .output()
        .unwrap();
    let expected = String::from_utf8(output.stdout).unwrap();
    let (status, answer) = server.translate(FORM);
    assert_eq!((status, &answer["translatedText"]), (200, &json!(expected.trim_end())));
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().any(|line| line["route"] == "/translate" && line["status"] == 200), "{log}");
    assert!(!log.contains("Nobody"), "texts are not logged: {log}");
}

#[test]
fn language_models_are_served_beside_translators() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.txt");
    let keys = keys.to_str().unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_polyhead")).args(["keys", "add", keys, "shop"]).output().unwrap();
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let gpt2 = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/golden/gpt2");
    let model = format!("gpt2={gpt2}");
    let server =
        Running::start(&["--model", &model, "--max-new-tokens", "20", "--keys", keys, "--require-key"]);
    let complete = |key: &str, body: Value| {
        let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}");
        let (status, body) =
            send(server.port, ["POST", "/v1/completions"], &headers, &body.to_string()).unwrap();
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args([
            "generate",
            "--model",
            gpt2,
            "--max-new-tokens",
            "12",
            "--seed",
            "3",
            "--format",
            "jsonl",
            "the cat",
        ])
        .output()
        .unwrap();
    let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (status, answer) = complete(&key, json!({ "prompt": "the cat", "max_tokens": 12, "seed": 3 }));
    assert_eq!((status, &answer["choices"][0]["text"]), (200, &expected["text"]));
    assert_eq!(answer["usage"]["prompt_tokens"], expected["prompt_tokens"]);
    let (status, answer) = complete("ph_wrong", json!({ "prompt": "the cat" }));
    assert_eq!((status, &answer["error"]["code"]), (401, &json!("invalid_api_key")));
    let (status, answer) = complete(&key, json!({ "prompt": "the cat", "max_tokens": 21 }));
    assert_eq!((status, &answer["error"]["message"]), (400, &json!("max_tokens: 21, expected 1 to 20")));
    assert_eq!(server.translate(&format!("{FORM}&api_key={key}")).0, 200);
    let (_, metrics) = send(server.port, ["GET", "/metrics"], "Accept: */*", "").unwrap();
    for expected in [
        "\npolyhead_generated_tokens_total 12\n",
        "\npolyhead_generated_texts_total 1\n",
        "\npolyhead_generation_rows 0\n",
        "\npolyhead_first_token_seconds_count 1\n",
    ] {
        assert!(metrics.contains(expected), "{expected}: {metrics}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("model gpt2: language model, context of 64 tokens"), "{log}");
    assert!(!log.contains("the cat"), "texts are not logged: {log}");
}

#[test]
fn running_requests_are_answered_before_it_stops() {
    let server = Running::start(&["--cache", "0"]);
    let port = server.port;
    let is_over = AtomicBool::new(false);
    let (mut answered, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let (mut answered, mut refused) = (0, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        match post(port, FORM) {
                            Some((200, _)) => answered += 1,
                            Some((503, _)) => refused += 1,
                            Some((status, answer)) => panic!("{status}: {answer}"),
                            // The server accepts no more connections.
                            None => break,
                        }
                    }
                    (answered, refused)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let (code, log) = server.end();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(code, Some(0), "{log}");
        for client in clients {
            let (own, other) = client.join().unwrap();
            (answered, refused) = (answered + own, refused + other);
        }
        let logged = log.matches("status=200").count();
        assert_eq!(logged, answered, "every answer arrived");
        assert!(!log.contains("status=500") && !log.contains("disconnected"), "{log}");
    });
    assert!(answered > 8, "{answered} answered, {refused} refused");
}

#[test]
fn keys_are_reloaded_without_losing_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    let key = |name: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
            .args(["keys", "add", file.to_str().unwrap(), name])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let first = key("shop");
    let server = Running::start(&["--keys", file.to_str().unwrap(), "--require-key"]);
    let with = |key: &str| server.translate(&format!("{FORM}&api_key={key}")).0;
    assert_eq!((server.translate(FORM).0, with("ph_wrong"), with(&first)), (403, 403, 200));
    let second = key("blog");
    assert_eq!(with(&second), 403);
    server.signal("HUP");
    let start = Instant::now();
    while with(&second) == 403 {
        assert_eq!(with(&first), 200);
        assert!(start.elapsed() < Duration::from_secs(20), "the keys were not reloaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::write(&file, "nonsense\n").unwrap();
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((with(&first), with(&second)), (200, 200), "a wrong file changes nothing");
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    assert!(log.contains("keys could not be reloaded; the old ones stay in use"), "{log}");
    assert!(log.contains("client=\"blog\"") && !log.contains(&second), "{log}");
}

#[test]
fn clients_above_their_rate_limit_get_429() {
    let server = Running::start(&["--per-minute", "3"]);
    let found: Vec<u16> = (0..5).map(|_| server.translate(FORM).0).collect();
    assert_eq!(found, [200, 200, 200, 429, 429]);
}

#[test]
fn a_server_that_cannot_start_prints_the_reason() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, err) = failure(&["--listen", &address]);
    assert_eq!(code, Some(2), "the option is there twice: {err}");
    let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["serve", "--listen", &address, "--model"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/golden/opus"))
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains(&format!("cannot listen on {address}")), "{err}");
    for (arguments, expected) in [
        (&["--max-memory", "1M"][..], "expected at most 1 MiB"),
        (&["--max-memory", "lots"], "expected a number of bytes"),
        (&["--cors", "shop.example"], "expected none, * or origins"),
        (&["--require-key"], "--keys"),
        (&["--model", "nowhere"], "nowhere"),
        (&["--max-new-tokens", "0"], "--max-new-tokens"),
        (&["--keys", "nowhere"], "nowhere"),
    ] {
        let (code, err) = failure(arguments);
        assert!(matches!(code, Some(1 | 2)) && err.contains(expected), "{arguments:?}: {err}");
        assert!(err.contains("hint: "), "{err}");
    }
}

#[test]
fn a_port_alone_is_refused_with_what_is_expected() {
    let run = crate::program::polyhead(std::path::Path::new("."), &["serve", "--listen", "5000"], "");
    assert!(run.failed(2).contains("expected ADDRESS:PORT, such as 0.0.0.0:5000"));
}

#[test]
fn encoders_are_served_beside_a_translator() {
    let folder = crate::encoders::made();
    let path = |name: &str| format!("{name}={}", folder.path().join(name).display());
    let server =
        Running::start(&["--model", &path("encoder"), "--model", &path("reranker"), "--max-inputs", "3"]);
    let json = "Content-Type: application/json";
    let ask = |path: &str, body: &Value| send(server.port, ["POST", path], json, &body.to_string()).unwrap();
    let (status, answer) = ask("/v1/embeddings", &json!({ "input": ["a dog barks.", ""] }));
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let run = polyhead(
        folder.path(),
        &["embed", "--model", "encoder", "--format", "jsonl", "a dog barks.", ""],
        "",
    );
    for (index, line) in run.ok().lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let numbers = |value: &Value| serde_json::from_value::<Vec<f32>>(value.clone()).unwrap();
        assert_eq!(numbers(&answer["data"][index]["embedding"]), numbers(&line["vector"]));
    }
    let (status, answer) = ask("/rerank", &json!({ "query": "a dog", "texts": ["a cat", "dogs"] }));
    assert_eq!(status, 200, "{answer}");
    let best: Value = serde_json::from_str::<Value>(&answer).unwrap()[0]["index"].clone();
    let run = polyhead(
        folder.path(),
        &["rerank", "--model", "reranker", "--query", "a dog", "--format", "jsonl", "a cat", "dogs"],
        "",
    );
    let first: Value = serde_json::from_str(run.ok().lines().next().unwrap()).unwrap();
    assert_eq!(first["document"].as_u64(), best.as_u64().map(|index| index + 1));
    assert_eq!(ask("/embed", &json!({ "inputs": vec!["a"; 4] })).0, 413);
    // The explorer of the translator is still at the address.
    let (status, page) = send(server.port, ["GET", "/"], "Accept: */*", "").unwrap();
    assert!(status == 200 && page.to_lowercase().contains("<html"), "{status}");
    let (_, metrics) = send(server.port, ["GET", "/metrics"], "Accept: */*", "").unwrap();
    assert!(metrics.contains("polyhead_encoder_texts_total 4\n"), "{metrics}");
    let (_, log) = server.end();
    assert!(log.contains("model encoder: encoder, texts of at most 16 tokens"), "{log}");
    assert!(log.contains("model reranker: reranker,"), "{log}");
}
