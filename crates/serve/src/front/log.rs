//! The log: one line for each request, and its time in the metrics.
//!
//! A line has the method, the pattern of the route, the status, milliseconds and bytes. It never has what was asked or a
//! key; an address only at the level `debug`. Lines go to standard error, as text or as JSON.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
pub use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use super::listen::Peer;
use super::metrics::{About, Family, Gauge, Histogram, Metrics};
use super::seen::{Look, Seen};

/// Ends of the ranges in which requests are counted, in seconds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs, an object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("log format {other:?}, expected text or json")),
        }
    }
}

/// Begins the log of the whole program, with lines of this level and above. False where there is one already.
///
/// A panic is logged with its place. What it says may hold a part of a text, so that it is logged at the level `debug` only.
pub fn set_up(format: LogFormat, level: Level) -> bool {
    let is_new = tracing::subscriber::set_global_default(subscriber(format, level, std::io::stderr)).is_ok();
    if is_new {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let said = tracing::enabled!(Level::DEBUG).then(|| panic.to_string());
            tracing::error!(place, said, "a thread broke down");
        }));
    }
    is_new
}

/// Where whoever lets a request in says who asks; it stands in the extensions of every request.
#[derive(Debug, Clone, Default)]
pub struct Visitors(Arc<OnceLock<Asker>>);

impl Visitors {
    /// Says who asks; the first word holds.
    pub fn note(&self, asker: Asker) {
        // A request has one client.
        let _ = self.0.set(asker);
    }
}

/// Who asked, for the log.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name of the key, if there was one.
    pub key: Option<Arc<str>>,
    /// The address, behind proxies that of the client.
    pub address: IpAddr,
}

/// Metrics of requests.
#[derive(Debug)]
pub struct RequestMetrics {
    seconds: Family<Histogram>,
    in_flight: Arc<Gauge>,
}

impl RequestMetrics {
    /// As a part of others.
    pub fn new(metrics: &Metrics) -> Self {
        let seconds = About {
            name: "polyhead_request_seconds",
            help: "Time from the head of a request to the end of its answer.",
            labels: &["route", "status"],
        };
        let in_flight = About {
            name: "polyhead_requests_in_flight",
            help: "Requests that are being answered.",
            labels: &[],
        };
        Self { seconds: metrics.histogram(seconds, SECONDS), in_flight: metrics.gauge(in_flight).with(&[]) }
    }

    /// How many requests are being answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight.value() as usize
    }
}

/// A middleware (`axum::middleware::from_fn_with_state`) that logs and counts each request when its answer has ended.
pub async fn watch(State(metrics): State<Arc<RequestMetrics>>, request: Request, next: Next) -> Response {
    metrics.in_flight.add(1.0);
    let route = request.extensions().get::<MatchedPath>();
    let bytes_in = Arc::new(AtomicU64::new(0));
    let mut line = Line {
        route: route.map_or("other".into(), |route| route.as_str().into()),
        method: request.method().clone(),
        address: request.extensions().get::<Peer>().map(|peer| peer.0.ip()),
        visitors: Visitors::default(),
        status: None,
        bytes_in: bytes_in.clone(),
        bytes_out: 0,
        is_whole: false,
        began: Instant::now(),
        metrics,
    };
    let mut request = request.map(|body| Body::new(Seen::new(body, Count(bytes_in))));
    request.extensions_mut().insert(line.visitors.clone());
    let response = next.run(request).await;
    line.status = Some(response.status());
    response.map(|body| {
        line.is_whole = body.is_end_stream() || line.method == Method::HEAD;
        Body::new(Seen::new(body, line))
    })
}

/// How lines are written.
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

/// One request; it is logged when this is dropped.
struct Line {
    method: Method,
    route: Arc<str>,
    /// None where the client went away before there was an answer.
    status: Option<StatusCode>,
    visitors: Visitors,
    /// Of the connection.
    address: Option<IpAddr>,
    bytes_in: Arc<AtomicU64>,
    bytes_out: u64,
    /// Whether the answer came to its end.
    is_whole: bool,
    began: Instant,
    metrics: Arc<RequestMetrics>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let took = self.began.elapsed().as_secs_f64();
        // The answer to a handler that breaks down is made further out.
        if std::thread::panicking() {
            (self.status, self.is_whole) = (Some(StatusCode::INTERNAL_SERVER_ERROR), true);
        }
        let class = self.status.map_or("gone".into(), |status| format!("{}xx", status.as_u16() / 100));
        self.metrics.in_flight.add(-1.0);
        self.metrics.seconds.with(&[&self.route, &class]).observe(took);
        let asker = self.visitors.0.get();
        let address = asker.map(|asker| asker.address).or(self.address);
        let address = address.filter(|_| tracing::enabled!(Level::DEBUG));
        tracing::info!(
            // Methods can be any word of a client's.
            method = if is_known(&self.method) { self.method.as_str() } else { "other" },
            route = &*self.route,
            status = self.status.map(|status| status.as_u16()),
            milliseconds = (took * 1e4).round() / 10.0,
            bytes_in = self.bytes_in.load(Ordering::Relaxed),
            bytes_out = self.bytes_out,
            client = asker.and_then(|asker| asker.key.as_deref()),
            address = address.map(tracing::field::display),
            "{}",
            match (self.status, self.is_whole) {
                (None, _) => "gone before the answer",
                (Some(_), false) => "gone during the answer",
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
struct Count(Arc<AtomicU64>);

impl Look for Count {
    fn passed(&mut self, bytes: u64, _is_last: bool) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The end of an answer is that of the request.
impl Look for Line {
    fn passed(&mut self, bytes: u64, is_last: bool) {
        self.bytes_out += bytes;
        self.is_whole |= is_last;
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

    /// Lines that are kept.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of a request, and the metrics after it.
    fn logged(format: LogFormat, level: Level, request: axum::http::request::Builder) -> (String, String) {
        let metrics = Metrics::default();
        let requests = Arc::new(RequestMetrics::new(&metrics));
        let answer = async |request: Request| {
            let (parts, body) = request.into_parts();
            let length = body::read(&parts.headers, body, &BodyLimits::default()).await.unwrap().0.len();
            let asker = Asker { key: Some("shop".into()), address: "10.0.0.9".parse().unwrap() };
            parts.extensions.get::<Visitors>().unwrap().note(asker);
            "x".repeat(length * 2)
        };
        let routes = Router::new()
            .route("/files/{id}", post(answer))
            .route("/never", get(async || std::future::pending::<()>().await))
            .layer(axum::middleware::from_fn_with_state(requests.clone(), watch));
        let kept = Kept::default();
        let writer = kept.clone();
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
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        (text, metrics.text())
    }

    #[test]
    fn a_line_has_the_route_and_the_sizes_but_no_text_and_no_address() {
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
    fn unknown_routes_and_methods_are_other_and_clients_that_go_are_told() {
        let (line, metrics) = logged(LogFormat::Text, Level::INFO, Request::get("/secret"));
        assert!(line.contains("route=\"other\" status=404") && !line.contains("secret"), "{line}");
        assert!(metrics.contains("route=\"other\",status=\"4xx\""), "{metrics}");
        let (line, _) =
            logged(LogFormat::Text, Level::INFO, Request::builder().method("SECRET").uri("/never"));
        assert!(line.contains("method=\"other\" route=\"/never\" status=405"), "{line}");
        let (line, metrics) = logged(LogFormat::Text, Level::INFO, Request::get("/never"));
        assert!(line.contains("gone before the answer method=\"GET\" route=\"/never\" milli"), "{line}");
        assert!(metrics.contains("route=\"/never\",status=\"gone\"} 1"), "{metrics}");
    }

    #[test]
    fn formats_have_names() {
        assert_eq!(("text".parse(), "json".parse()), (Ok(LogFormat::Text), Ok(LogFormat::Json)));
        assert!("xml".parse::<LogFormat>().unwrap_err().contains("expected text or json"));
    }
}
