//! Texts of many clients in shared batches: each has the bits that it has alone, and clients take turns of work.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use super::*;

/// Requests of many kinds.
fn requests() -> Vec<(&'static str, Value)> {
    let words = ["a", "dog", "cat", "barks", ".", "river", "zebra"];
    let text = |seed: usize, length: usize| {
        (0..length)
            .map(|index| words[(seed * 5 + index * 3 + index * index) % words.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut all = Vec::new();
    for seed in 0..12 {
        let texts: Vec<String> =
            (0..=seed % 5).map(|index| text(seed + index, (seed * 7 + index) % 14)).collect();
        all.push((
            "/v1/embeddings",
            json!({ "input": texts, "encoding_format": if seed % 2 == 0 { "base64" } else { "float" } }),
        ));
        all.push(("/embed", json!({ "inputs": texts, "model": "plain", "normalize": seed % 2 == 0 })));
        all.push(("/embed_all", json!({ "inputs": texts[0] })));
        all.push(("/predict", json!({ "inputs": texts[0], "raw_scores": seed % 3 == 0 })));
        all.push(("/rerank", json!({ "query": "a dog", "texts": texts, "truncate": true })));
    }
    all
}

#[test]
fn sixteen_clients_at_once_get_what_they_get_alone() {
    let server = Running::all();
    let requests = requests();
    let alone: Vec<String> =
        requests.iter().map(|(path, body)| server.answered(path, body).to_string()).collect();
    let before = server.state.scheduler.encoder_gauges();
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..16 {
            let (server, requests, alone, wrong) = (&server, &requests, &alone, &wrong);
            scope.spawn(move || {
                for turn in 0..requests.len() {
                    let index = (turn * 7 + client * 3) % requests.len();
                    let (path, body) = &requests[index];
                    let answer = server.send_as(&format!("client {client}"), path, body);
                    let found = answer.json().to_string();
                    if answer.status != 200 || found != alone[index] {
                        wrong.lock().unwrap().push((client, index, answer.body));
                    }
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), []);
    let gauges = server.state.scheduler.encoder_gauges();
    let [texts, batches] = [gauges.texts - before.texts, gauges.batches - before.batches];
    assert!(texts >= 16 * 60 && batches < texts, "{texts} texts in {batches} batches");
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn a_request_larger_than_the_queue_is_queued_in_slices() {
    let folder = tempfile::tempdir().unwrap();
    let models =
        vec![ModelFolder { name: "m".into(), folder: model(folder.path(), ("m", "none"), &[], SMALL) }];
    let options = SchedulerOptions { models, waiting: 16, threads: 2, ..SchedulerOptions::default() };
    let scheduler = Arc::new(Scheduler::open(options).unwrap());
    let state = ServerState::new(scheduler, RequestLimits::default(), FilesOptions::default());
    let port = start(Arc::new(state));
    let texts: Vec<String> = (0..100).map(|index| "dog ".repeat(index % 12)).collect();
    let answer = post(port, "/embed", &json!({ "inputs": texts, "normalize": false }));
    let encoder = TextEncoder::load(folder.path().join("m"), &LoadOptions::default()).unwrap();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(rows(&answer.json()), vectors(&encoder, &texts));
}

#[test]
fn a_client_with_much_work_leaves_others_their_turn() {
    let server = Running::slow(RequestLimits::default());
    let heavy = json!({ "inputs": vec!["dog ".repeat(250); 240] });
    let light = json!({ "inputs": "a dog barks" });
    let expected = server.answered("/embed", &light);
    std::thread::scope(|scope| {
        let heavy = scope.spawn(|| {
            let begin = Instant::now();
            let answer = server.send_as("heavy", "/embed", &heavy);
            (answer.status, begin.elapsed())
        });
        let begin = Instant::now();
        while server.state.scheduler.gauges().waiting < 100 {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut slowest = Duration::ZERO;
        for _ in 0..5 {
            let begin = Instant::now();
            let answer = server.send_as("light", "/embed", &light);
            assert_eq!(answer.json(), expected);
            slowest = slowest.max(begin.elapsed());
        }
        let (status, took) = heavy.join().unwrap();
        assert!(status == 200 && slowest * 4 < took, "light {slowest:?}, heavy {took:?}");
    });
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn a_long_text_makes_way_between_its_layers_and_ends_when_nobody_waits() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = Sizes { d_model: 32, n_layers: 24, max_len: 20_000 };
    let models =
        vec![ModelFolder { name: "m".into(), folder: model(folder.path(), ("m", "none"), &[], sizes) }];
    let options = SchedulerOptions { models, threads: 1, ..SchedulerOptions::default() };
    let scheduler = Arc::new(Scheduler::open(options).unwrap());
    let mut state = ServerState::new(scheduler, RequestLimits::default(), FilesOptions::default());
    state.gate = Arc::new(NamedClients);
    let state = Arc::new(state);
    let server = Running { port: start(state.clone()), state, folder };
    let long = json!({ "inputs": "a ".repeat(4000) });
    let light = json!({ "inputs": "a dog barks" });
    let expected = server.answered("/embed", &light);
    let begin_long = || {
        let body = long.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let head = format!(
            "POST /embed HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json",
            server.port
        );
        write!(stream, "{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
            .unwrap();
        let begin = Instant::now();
        while server.state.scheduler.gauges().busy < 1 {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        (stream, Instant::now())
    };
    let (mut stream, begin) = begin_long();
    let light_begin = Instant::now();
    assert_eq!(server.send_as("light", "/embed", &light).json(), expected);
    let waited = light_begin.elapsed();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let took = begin.elapsed();
    assert!(answer.starts_with("HTTP/1.1 200") && waited * 3 < took, "light {waited:?}, long {took:?}");
    let (stream, begin) = begin_long();
    drop(stream);
    server.is_quiet_within(Duration::from_secs(5));
    assert!(begin.elapsed() * 2 < took, "{:?} of {took:?}", begin.elapsed());
}
