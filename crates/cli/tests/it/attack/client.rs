//! HTTP/1.1 clients with source addresses of their own: every address of 127.0.0.0/8 is another client of the server.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

/// An answer of the server.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) took: Duration,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The value of a header, in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// A client: a source address, and the port of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub(super) from: Ipv4Addr,
    pub(super) port: u16,
}

impl Client {
    /// The client number `number` of the server at `port`.
    pub(super) fn new(number: u8, port: u16) -> Self {
        Self { from: Ipv4Addr::new(127, 0, 1, number), port }
    }

    pub(super) fn connect(self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((self.from, 0)).into())?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        socket.connect_timeout(&server.into(), Duration::from_secs(10))?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The head of a request with `length` bytes of body; `extra` are whole header lines.
    pub(super) fn head(self, method: &str, path: &str, length: usize, extra: &str) -> String {
        let port = self.port;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{extra}\r\n"
        )
    }

    /// Sends a request and waits for its answer, at most `patience`.
    pub(super) fn send(self, head: &str, body: &[u8], patience: Duration) -> io::Result<Answer> {
        let begun = Instant::now();
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(head.as_bytes())?;
        // A server that refuses a body may close before all of it is sent; its answer is still to be read.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no answer"))?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok(Answer { status, head, body: bytes.split_off(end + 4), took: begun.elapsed() })
    }

    pub(super) fn get(self, path: &str, extra: &str) -> io::Result<Answer> {
        self.send(&self.head("GET", path, 0, extra), b"", Duration::from_secs(60))
    }

    pub(super) fn post(self, path: &str, body: &Value, extra: &str) -> io::Result<Answer> {
        let body = body.to_string();
        let extra = format!("Content-Type: application/json\r\n{extra}");
        self.send(&self.head("POST", path, body.len(), &extra), body.as_bytes(), Duration::from_secs(120))
    }

    /// Sends a request, and hangs up after a moment.
    pub(super) fn post_and_leave(self, path: &str, body: &Value) -> io::Result<()> {
        let body = body.to_string();
        let mut stream = self.connect()?;
        let head = self.head("POST", path, body.len(), "Content-Type: application/json\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }

    /// Translates a text from English into another language.
    pub(super) fn translate(self, text: &str, to: &str) -> io::Result<Answer> {
        self.post("/translate", &json!({ "q": text, "source": "en", "target": to }), "")
    }
}

/// What a light client saw: one short sentence after the other.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    /// Milliseconds of the requests that were answered with 200, sorted.
    pub(super) milliseconds: Vec<f64>,
    /// Answers 429 and 503 that say when to come back.
    pub(super) refused: usize,
    /// Anything else: other statuses, lost connections.
    pub(super) failed: usize,
}

impl Seen {
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let last = self.milliseconds.len().saturating_sub(1);
        self.milliseconds.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.milliseconds.extend(&other.milliseconds);
        self.milliseconds.sort_by(f64::total_cmp);
        self.refused += other.refused;
        self.failed += other.failed;
    }

    pub(super) fn text(&self) -> String {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| self.percentile(share));
        format!(
            "light client: {} answers, p50 {p50:.0} ms, p99 {p99:.0} ms, slowest {most:.0} ms, {} refused, {} failed",
            self.milliseconds.len(),
            self.refused,
            self.failed
        )
    }
}

/// Sentences that no cache knows.
static SENTENCE: AtomicUsize = AtomicUsize::new(0);

/// A short English sentence that was not returned before.
pub(super) fn sentence() -> String {
    let number = SENTENCE.fetch_add(1, Ordering::Relaxed);
    let who = ["The teacher", "My sister", "The old doctor", "Our neighbour", "A student"][number % 5];
    let what = ["reads a book", "drinks tea", "is waiting for the train", "writes a letter"][number / 5 % 4];
    let place = ["in the garden", "near the river", "in the kitchen", "at the station"][number / 20 % 4];
    format!("{who} {what} {place} with {number} friends.")
}

/// A text of at least `characters` characters, of new sentences.
pub(super) fn book(characters: usize) -> String {
    let mut text = String::new();
    while text.len() < characters {
        text += &sentence();
        text.push(' ');
    }
    text.truncate(characters);
    text
}

/// Sends one sentence after the other until `is_over`; a pause of `pause` between them.
pub(super) fn light(client: Client, to: &str, pause: Duration, is_over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !is_over.load(Ordering::Relaxed) {
        match client.translate(&sentence(), to) {
            Ok(answer) if answer.status == 200 => seen.milliseconds.push(answer.took.as_secs_f64() * 1e3),
            Ok(answer) if [429, 503].contains(&answer.status) && answer.header("retry-after").is_some() => {
                seen.refused += 1;
            }
            Ok(answer) => {
                eprintln!("light client: {}", answer.head.lines().next().unwrap_or_default());
                seen.failed += 1;
            }
            Err(error) => {
                eprintln!("light client: {error}");
                seen.failed += 1;
            }
        }
        std::thread::sleep(pause);
    }
    seen.milliseconds.sort_by(f64::total_cmp);
    seen
}
