//! The request log: one line for each request, and its duration in the metrics.
//!
//! A line has the method, the pattern of the route, the status, milliseconds and bytes. It never contains a text or a key, and
//! an address only at level `debug`. Lines go to standard error, as text or as JSON.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
pub use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use super::listen::Peer;
use super::metrics::{Family, Gauge, Histogram, MetricInfo, Metrics};
use super::observed_body::{BodyObserver, ObservedBody};

/// Upper bounds of the histogram's buckets, in seconds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format {other:?}, expected text or json")),
        }
    }
}

/// Installs the log of the whole program, with lines of this level and above; false if there is one already.
///
/// Panics are logged with their location. Their message may contain a part of a text, so it is logged at level `debug` only.
pub fn set_up(format: LogFormat, level: Level) -> bool {
    let is_new = tracing::subscriber::set_global_default(subscriber(format, level, std::io::stderr)).is_ok();
    if is_new {
        std::panic::set_hook(Box::new(|panic| {
            let location = panic.location().map(ToString::to_string).unwrap_or_default();
            let message = tracing::enabled!(Level::DEBUG).then(|| panic.to_string());
            tracing::error!(place = location, said = message, "a thread panicked");
        }));
    }
    is_new
}

/// An extension of every request, in which admission stores the client for the log.
#[derive(Debug, Clone, Default)]
pub struct ClientSlot(Arc<Mutex<Option<LoggedClient>>>);

impl ClientSlot {
    /// Stores the client; a key in the body replaces an address.
    pub fn set(&self, client: LoggedClient) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }
}

/// The client of a request, for the log.
#[derive(Debug, Clone)]
pub struct LoggedClient {
    /// Name of its API key, if any.
    pub key: Option<Arc<str>>,
    /// Its address, also behind trusted proxies.
    pub address: IpAddr,
}

/// Metrics of requests.
#[derive(Debug)]
pub struct RequestMetrics {
    seconds: Family<Histogram>,
    in_flight: Arc<Gauge>,
}

impl RequestMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Self {
        let seconds = MetricInfo {
            name: "polyhead_request_seconds",
            help: "Time from the head of a request to the end of its answer.",
            labels: &["route", "status"],
        };
        let in_flight =
            MetricInfo { name: "polyhead_requests_in_flight", help: "Requests in progress.", labels: &[] };
        Self { seconds: metrics.histogram(seconds, SECONDS), in_flight: metrics.gauge(in_flight).with(&[]) }
    }

    /// Number of requests in progress.
    pub fn in_flight(&self) -> usize {
        self.in_flight.value() as usize
    }
}

/// Middleware (`axum::middleware::from_fn_with_state`) that logs and counts each request when its answer has ended.
pub async fn log_requests(
    State(metrics): State<Arc<RequestMetrics>>,
    request: Request,
    next: Next,
) -> Response {
    metrics.in_flight.add(1.0);
    let route = request.extensions().get::<MatchedPath>();
    let bytes_in = Arc::new(AtomicU64::new(0));
    let mut record = RequestRecord {
        route: route.map_or("other".into(), |route| route.as_str().into()),
        method: request.method().clone(),
        address: request.extensions().get::<Peer>().map(|peer| peer.0.ip()),
        client: ClientSlot::default(),
        status: None,
        bytes_in: bytes_in.clone(),
        bytes_out: 0,
        is_complete: false,
        began: Instant::now(),
        metrics,
    };
    let mut request = request.map(|body| Body::new(ObservedBody::new(body, ByteCounter(bytes_in))));
    request.extensions_mut().insert(record.client.clone());
    let response = next.run(request).await;
    record.status = Some(response.status());
    response.map(|body| {
        record.is_complete = body.is_end_stream() || record.method == Method::HEAD;
        Body::new(ObservedBody::new(body, record))
    })
}

/// The subscriber that formats and writes log lines.
fn subscriber<W: for<'a> MakeWriter<'a> + Send + Sync + 'static>(
    format: LogFormat,
    level: Level,
    writer: W,
) -> Box<dyn tracing::Subscriber + Send + Sync> {
    let lines = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(lines.finish()),
        LogFormat::Json => {
            Box::new(lines.json().flatten_event(true).with_current_span(false).with_span_list(false).finish())
        }
    }
}

/// One request, logged on drop.
struct RequestRecord {
    method: Method,
    route: Arc<str>,
    /// None if the client disconnected before there was an answer.
    status: Option<StatusCode>,
    client: ClientSlot,
    /// Peer address of the connection.
    address: Option<IpAddr>,
    bytes_in: Arc<AtomicU64>,
    bytes_out: u64,
    /// True if the answer was sent completely.
    is_complete: bool,
    began: Instant,
    metrics: Arc<RequestMetrics>,
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let took = self.began.elapsed().as_secs_f64();
        // The answer to a handler that panics is made in an outer layer.
        if std::thread::panicking() {
            (self.status, self.is_complete) = (Some(StatusCode::INTERNAL_SERVER_ERROR), true);
        }
        let class = self.status.map_or("gone".into(), |status| format!("{}xx", status.as_u16() / 100));
        self.metrics.in_flight.add(-1.0);
        self.metrics.seconds.with(&[&self.route, &class]).observe(took);
        let client = self.client.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let address = client.as_ref().map(|client| client.address).or(self.address);
        let address = address.filter(|_| tracing::enabled!(Level::DEBUG));
        tracing::info!(
            // A client can send any word as a method.
            method = if is_known(&self.method) { self.method.as_str() } else { "other" },
            route = &*self.route,
            status = self.status.map(|status| status.as_u16()),
            milliseconds = (took * 1e4).round() / 10.0,
            bytes_in = self.bytes_in.load(Ordering::Relaxed),
            bytes_out = self.bytes_out,
            client = client.as_ref().and_then(|client| client.key.as_deref()),
            address = address.map(tracing::field::display),
            "{}",
            match (self.status, self.is_complete) {
                (None, _) => "client disconnected before the answer",
                (Some(_), false) => "client disconnected during the answer",
                (Some(_), true) => "answered",
            }
        );
    }
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
        .contains(method)
}

/// Counts the bytes of a request.
struct ByteCounter(Arc<AtomicU64>);

impl BodyObserver for ByteCounter {
    fn on_frame(&mut self, bytes: u64, _is_last: bool) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The end of the answer is the end of the request.
impl BodyObserver for RequestRecord {
    fn on_frame(&mut self, bytes: u64, is_last: bool) {
        self.bytes_out += bytes;
        self.is_complete |= is_last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::body::{self, BodyLimits};
    use axum::Router;
    use axum::routing::{get, post};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use std::io::Write;
    use std::sync::Mutex;

    /// A writer into memory.
    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The log line of a request, and the metrics after it.
    fn logged(format: LogFormat, level: Level, request: axum::http::request::Builder) -> (String, String) {
        let metrics = Metrics::default();
        let requests = Arc::new(RequestMetrics::new(&metrics));
        let answer = async |request: Request| {
            let (parts, body) = request.into_parts();
            let length = body::read(&parts.headers, body, &BodyLimits::default()).await.unwrap().0.len();
            let client = LoggedClient { key: Some("shop".into()), address: "10.0.0.9".parse().unwrap() };
            parts.extensions.get::<ClientSlot>().unwrap().set(client);
            "x".repeat(length * 2)
        };
        let routes = Router::new()
            .route("/files/{id}", post(answer))
            .route("/never", get(async || std::future::pending::<()>().await))
            .layer(axum::middleware::from_fn_with_state(requests.clone(), log_requests));
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let request =
            request.extension(Peer("10.0.0.1:99".parse().unwrap())).body(Body::from("secret")).unwrap();
        tracing::subscriber::with_default(subscriber(format, level, move || writer.clone()), || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let answer = TowerToHyperService::new(routes).call(request);
                let limit = std::time::Duration::from_millis(50);
                if let Ok(Ok(answer)) = tokio::time::timeout(limit, answer).await {
                    assert_eq!(requests.in_flight(), 1);
                    let (parts, body) = answer.into_parts();
                    body::read(&parts.headers, body, &BodyLimits::default()).await.unwrap();
                }
            });
        });
        assert_eq!(requests.in_flight(), 0);
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        (text, metrics.text())
    }

    #[test]
    fn a_line_has_route_and_sizes_but_no_text_and_no_address() {
        let request = || Request::post("/files/my-secret-id?q=secret").header("authorization", "ph_secret");
        let (line, metrics) = logged(LogFormat::Json, Level::INFO, request());
        let found: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(found["milliseconds"].is_number() && found["timestamp"].is_string(), "{line}");
        for (name, expected) in [
            ("method", serde_json::json!("POST")),
            ("route", "/files/{id}".into()),
            ("status", 200.into()),
            ("bytes_in", 6.into()),
            ("bytes_out", 12.into()),
            ("client", "shop".into()),
            ("message", "answered".into()),
            ("level", "INFO".into()),
        ] {
            assert_eq!(found[name], expected, "{name}: {line}");
        }
        assert!(!line.contains("secret") && !line.contains("10.0.0"), "{line}");
        let expected = "polyhead_request_seconds_count{route=\"/files/{id}\",status=\"2xx\"} 1\n";
        assert!(
            metrics.contains(expected) && metrics.contains("polyhead_requests_in_flight 0\n"),
            "{metrics}"
        );
        let (line, _) = logged(LogFormat::Json, Level::DEBUG, request());
        assert!(line.contains("\"address\":\"10.0.0.9\""), "{line}");
        let (line, _) = logged(LogFormat::Text, Level::INFO, request());
        assert!(line.contains("INFO answered method=\"POST\" route=\"/files/{id}\" status=200"), "{line}");
        assert!(!line.contains('\u{1b}') && line.ends_with("client=\"shop\"\n"), "{line}");
        assert_eq!(logged(LogFormat::Text, Level::WARN, request()).0, "");
    }

    #[test]
    fn unknown_routes_and_methods_are_other_and_disconnects_are_logged() {
        let (line, metrics) = logged(LogFormat::Text, Level::INFO, Request::get("/secret"));
        assert!(line.contains("route=\"other\" status=404") && !line.contains("secret"), "{line}");
        assert!(metrics.contains("route=\"other\",status=\"4xx\""), "{metrics}");
        let (line, _) =
            logged(LogFormat::Text, Level::INFO, Request::builder().method("SECRET").uri("/never"));
        assert!(line.contains("method=\"other\" route=\"/never\" status=405"), "{line}");
        let (line, metrics) = logged(LogFormat::Text, Level::INFO, Request::get("/never"));
        assert!(
            line.contains("client disconnected before the answer method=\"GET\" route=\"/never\" milli"),
            "{line}"
        );
        assert!(metrics.contains("route=\"/never\",status=\"gone\"} 1"), "{metrics}");
    }

    #[test]
    fn formats_have_names() {
        assert_eq!(("text".parse(), "json".parse()), (Ok(LogFormat::Text), Ok(LogFormat::Json)));
        assert!("xml".parse::<LogFormat>().unwrap_err().contains("expected text or json"));
    }
}
