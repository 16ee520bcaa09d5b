//! Clients that hang up, ask for too much, or send nonsense: others do not notice, and nothing is left behind.

use std::io::Write as _;
use std::net::TcpStream;

use super::*;

/// Sends a request and reads nothing.
fn begin(server: &Running, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}", server.port).unwrap();
    stream
}

fn much() -> Value {
    json!({ "inputs": vec!["dog ".repeat(400); 300] })
}

#[test]
fn a_client_that_hangs_up_frees_its_work_and_its_memory() {
    let server = Running::slow(RequestLimits::default());
    let streams: Vec<TcpStream> = (0..4).map(|_| begin(&server, "/embed", &much())).collect();
    let start = Instant::now();
    while server.state.scheduler.gauges().waiting < 300 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", server.state.scheduler.gauges());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(server.state.memory.used() > 1 << 20);
    drop(streams);
    server.is_quiet_within(Duration::from_secs(5));
    let texts = server.state.scheduler.encoder_gauges().texts;
    assert!(texts < 1000, "{texts} of 1200 texts");
}

#[test]
fn a_passed_deadline_is_overload_and_frees_its_work() {
    let limits = RequestLimits { deadline: Duration::from_millis(200), ..RequestLimits::default() };
    let server = Running::slow(limits);
    let answer = post(server.port, "/embed", &much());
    assert_eq!((answer.status, &answer.json()["error_type"]), (429, &json!("Overloaded")), "{}", answer.body);
    assert!(answer.headers.contains("retry-after: "), "{}", answer.headers);
    let answer = post(server.port, "/v1/embeddings", &json!({ "input": much()["inputs"] }));
    let code = answer.json()["error"]["code"].clone();
    assert!([503, 413].contains(&answer.status), "{} {code}", answer.status);
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(post(server.port, "/embed", &json!({ "inputs": "a" })).status, 200);
}

#[test]
fn a_full_queue_is_429_and_others_have_their_half() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = Sizes { d_model: 64, n_layers: 4, max_len: 512 };
    let models =
        vec![ModelFolder { name: "m".into(), folder: model(folder.path(), ("m", "none"), &[], sizes) }];
    let options = SchedulerOptions { models, waiting: 40, threads: 1, ..SchedulerOptions::default() };
    let scheduler = Arc::new(Scheduler::open(options).unwrap());
    let mut state = ServerState::new(scheduler, RequestLimits::default(), FilesOptions::default());
    state.gate = Arc::new(NamedClients);
    let state = Arc::new(state);
    let server = Running { port: start(state.clone()), state, folder };
    let streams: Vec<TcpStream> = (0..6).map(|_| begin(&server, "/embed", &much())).collect();
    let start = Instant::now();
    while server.state.scheduler.gauges().waiting < 15 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", server.state.scheduler.gauges());
        std::thread::sleep(Duration::from_millis(2));
    }
    let answer = post(server.port, "/embed", &json!({ "inputs": vec!["a"; 10] }));
    assert_eq!((answer.status, &answer.json()["error_type"]), (429, &json!("Overloaded")), "{}", answer.body);
    let answer = server.send_as("other", "/embed", &json!({ "inputs": ["a", "b"] }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    drop(streams);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn memory_is_reserved_before_the_work_and_what_can_never_be_had_is_refused() {
    let server = Running::slow(RequestLimits::default());
    // The states of all tokens: 64 numbers for each.
    server.state.memory.set_limit(16 << 20);
    let body = json!({ "inputs": vec!["dog ".repeat(400); 60] });
    let answer = post(server.port, "/embed_all", &body);
    assert_eq!((answer.status, &answer.json()["error_type"]), (413, &json!("Validation")), "{}", answer.body);
    assert!(answer.body.contains("MiB of memory for the texts and the answer"), "{}", answer.body);
    assert_eq!(server.state.scheduler.encoder_gauges().texts, 0);
    assert_eq!(post(server.port, "/embed", &body).status, 200);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn hostile_bodies_are_refused_quickly() {
    let server = Running::all();
    let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (path, name) in
        [("/v1/embeddings", "input"), ("/embed", "inputs"), ("/embed_all", "inputs"), ("/predict", "inputs")]
    {
        for (value, expected) in [
            (list("\"a\"", 300_000), &[413][..]),
            (list("1", 300_000), &[413]),
            (list("[1]", 100_000), &[413]),
            (list("{\"\":0}", 100_000), &[400, 413, 422]),
            (deep.clone(), &[400]),
            (format!("\"{}\"", "a".repeat(200_000)), &[413]),
            (format!("\"{}\"", "a".repeat(5 << 20)), &[413]),
            ("nonsense".into(), &[400]),
            ("\"\\ud800\"".into(), &[400]),
            ("[\"a\", null]".into(), &[400, 422]),
            ("[1e9]".into(), &[400, 422]),
            ("[-1]".into(), &[400, 422]),
        ] {
            let body = format!("{{\"{name}\": {value}}}");
            let begin = Instant::now();
            let answer = send(server.port, ["POST", path], &["Content-Type: application/json"], &body);
            let shown: String = value.chars().take(20).collect();
            assert!(expected.contains(&answer.status), "{path} {shown}: {} {}", answer.status, answer.body);
            assert!(begin.elapsed() < Duration::from_secs(5), "{shown}: {:?}", begin.elapsed());
        }
    }
    // A query is read with every text.
    let query = "a".repeat(1000);
    let answer = post(server.port, "/rerank", &json!({ "query": query, "texts": vec!["a"; 1000] }));
    assert_eq!((answer.status, &answer.json()["error_type"]), (413, &json!("Validation")), "{}", answer.body);
    let answer = send(server.port, ["POST", "/embed"], &["Content-Type: text/csv"], "a,b");
    assert_eq!(answer.status, 415, "{}", answer.body);
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.state.scheduler.encoder_gauges().texts, 0);
    server.answered("/embed", &json!({ "inputs": "a" }));
}
