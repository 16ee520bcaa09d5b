//! Prometheus metrics in the text format 0.0.4: counters, gauges and histograms.
//!
//! Labels come from closed sets (a route, a status, a model): never a client, and never a word of a text. Should a set turn out
//! not to be closed, all values past [`MAX_SERIES`] are counted under `other`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::process;

/// The media type of the text format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Maximum combinations of labels of a metric.
pub const MAX_SERIES: usize = 256;

/// Name, help text and labels of a metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricInfo {
    /// Its name, such as `polyhead_requests_total`.
    pub name: &'static str,
    /// Its help text, one sentence.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// Writes a metric.
type Writer = Box<dyn Fn(&mut String) + Send + Sync>;

/// All metrics of a server.
#[derive(Default)]
pub struct Metrics {
    writers: Mutex<Vec<Writer>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Metrics")
    }
}

impl Metrics {
    /// With the metrics of the process, where the system provides them: memory, open files, start time.
    pub fn new() -> Self {
        let metrics = Self::default();
        let [memory, files, start] = process::METRICS;
        metrics.callback(memory, MetricKind::Gauge, || process::resident_bytes().map(|bytes| bytes as f64));
        metrics.callback(files, MetricKind::Gauge, || process::open_files().map(|count| count as f64));
        let began = process::start_seconds();
        metrics.callback(start, MetricKind::Gauge, move || began);
        metrics
    }

    /// A number that only grows.
    pub fn counter(&self, info: MetricInfo) -> Family<Counter> {
        self.family(info, MetricKind::Counter, Counter::default)
    }

    /// A number that goes up and down.
    pub fn gauge(&self, info: MetricInfo) -> Family<Gauge> {
        self.family(info, MetricKind::Gauge, Gauge::default)
    }

    /// A histogram whose buckets end at `bounds`.
    pub fn histogram(&self, info: MetricInfo, bounds: &'static [f64]) -> Family<Histogram> {
        self.family(info, MetricKind::Histogram, move || Histogram::new(bounds))
    }

    /// A metric whose value is read on each scrape; omitted if there is none.
    pub fn callback(
        &self,
        info: MetricInfo,
        kind: MetricKind,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.add(move |text| {
            if let Some(value) = read() {
                write_head(text, info, kind);
                write_sample(text, info.name, &[], &number(value));
            }
        });
    }

    /// All metrics in the text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for write in self.writers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            write(&mut text);
        }
        text
    }

    fn add(&self, write: impl Fn(&mut String) + Send + Sync + 'static) {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(write));
    }

    fn family<T: Series>(
        &self,
        info: MetricInfo,
        kind: MetricKind,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Family<T> {
        let family = Family(Arc::new(FamilyState { info, make: Box::new(make), series: RwLock::default() }));
        let own = family.clone();
        self.add(move |text| {
            write_head(text, info, kind);
            for (values, series) in own.0.series.read().unwrap_or_else(PoisonError::into_inner).iter() {
                let pairs: Vec<(&str, &str)> =
                    info.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
                series.write(text, info.name, &pairs);
            }
        });
        family
    }
}

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Counts values in buckets.
    Histogram,
}

/// A metric with a series for each combination of its labels.
pub struct Family<T>(Arc<FamilyState<T>>);

impl<T> Clone for Family<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Family<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Family({})", self.0.info.name)
    }
}

struct FamilyState<T> {
    info: MetricInfo,
    make: Box<dyn Fn() -> T + Send + Sync>,
    /// In the order of creation; there are few, so a linear search is quick.
    series: RwLock<Vec<(Vec<String>, Arc<T>)>>,
}

impl<T> Family<T> {
    /// The series of these label values, in the order of the labels.
    pub fn with(&self, values: &[&str]) -> Arc<T> {
        assert_eq!(values.len(), self.0.info.labels.len(), "labels of {}", self.0.info.name);
        let find = |series: &[(Vec<String>, Arc<T>)], values: &[&str]| {
            series.iter().find(|(own, _)| own == values).map(|(_, series)| series.clone())
        };
        let series = self.0.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&series, values) {
            return found;
        }
        drop(series);
        let mut series = self.0.series.write().unwrap_or_else(PoisonError::into_inner);
        let others = vec!["other"; values.len()];
        let values = if series.len() >= MAX_SERIES { &others[..] } else { values };
        // Another thread may have created it in between.
        find(&series, values).unwrap_or_else(|| {
            let made = Arc::new((self.0.make)());
            series.push((values.iter().map(|value| (*value).to_owned()).collect(), made.clone()));
            made
        })
    }
}

/// A series that can be written in the text format.
trait Series: Send + Sync + 'static {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]);
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Increases it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Series for Counter {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        write_sample(text, name, labels, &self.value().to_string());
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets its value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds a positive or negative number.
    pub fn add(&self, change: f64) {
        add_float(&self.0, change);
    }

    /// Its value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Series for Gauge {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        write_sample(text, name, labels, &number(self.value()));
    }
}

/// A histogram of values.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count for each bound, and one for values beyond the last.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        add_float(&self.sum, value);
    }

    /// Number of counted values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Series for Histogram {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        // The total is the sum of the buckets as read, so that both agree while other threads count.
        let mut total = 0;
        let ends = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (count, end) in self.counts.iter().zip(ends) {
            total += count.load(Ordering::Relaxed);
            let end = number(end);
            let labels: Vec<_> = labels.iter().copied().chain([("le", end.as_str())]).collect();
            write_sample(text, &format!("{name}_bucket"), &labels, &total.to_string());
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        write_sample(text, &format!("{name}_sum"), labels, &number(sum));
        write_sample(text, &format!("{name}_count"), labels, &total.to_string());
    }
}

fn add_float(cell: &AtomicU64, change: f64) {
    let add = |bits| Some((f64::from_bits(bits) + change).to_bits());
    // The closure never returns none, so this always succeeds.
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

/// Writes the HELP and TYPE lines of a metric.
fn write_head(text: &mut String, info: MetricInfo, kind: MetricKind) {
    let MetricInfo { name, help, .. } = info;
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("writing to a string cannot fail");
}

/// Writes the line of a sample.
fn write_sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: &str) {
    text.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(text, "{label}=\"{value}\"").expect("writing to a string cannot fail");
    }
    if !labels.is_empty() {
        text.push('}');
    }
    writeln!(text, " {value}").expect("writing to a string cannot fail");
}

fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".into()
    } else if value == f64::NEG_INFINITY {
        "-Inf".into()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: MetricInfo =
        MetricInfo { name: "requests_total", help: "Requests.", labels: &["route", "status"] };

    #[test]
    fn the_text_has_the_format() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        requests.with(&["/translate", "2xx"]).add(3);
        requests.with(&["a\"b\\c\nd", "4xx"]).add(1);
        requests.with(&["/translate", "2xx"]).add(1);
        let open = metrics.gauge(MetricInfo { name: "open", help: "Open \\ now.\nNot then.", labels: &[] });
        open.with(&[]).add(2.0);
        open.with(&[]).add(-0.5);
        let seconds = MetricInfo { name: "seconds", help: "Time.", labels: &["route"] };
        let seconds = metrics.histogram(seconds, &[0.1, 1.0]).with(&["/"]);
        for value in [0.1, 0.5, 2.0] {
            seconds.observe(value);
        }
        metrics
            .callback(MetricInfo { name: "up", help: "Up.", labels: &[] }, MetricKind::Gauge, || Some(1.0));
        metrics.callback(MetricInfo { name: "gone", help: "Gone.", labels: &[] }, MetricKind::Gauge, || None);
        let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\n\
            requests_total{route=\"/translate\",status=\"2xx\"} 4\n\
            requests_total{route=\"a\\\"b\\\\c\\nd\",status=\"4xx\"} 1\n\
            # HELP open Open \\\\ now.\\nNot then.\n# TYPE open gauge\nopen 1.5\n\
            # HELP seconds Time.\n# TYPE seconds histogram\n\
            seconds_bucket{route=\"/\",le=\"0.1\"} 1\nseconds_bucket{route=\"/\",le=\"1\"} 2\n\
            seconds_bucket{route=\"/\",le=\"+Inf\"} 3\nseconds_sum{route=\"/\"} 2.6\nseconds_count{route=\"/\"} 3\n\
            # HELP up Up.\n# TYPE up gauge\nup 1\n";
        assert_eq!(metrics.text(), expected);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        for index in 0..1000 {
            requests.with(&[&index.to_string(), "2xx"]).add(1);
        }
        let lines = metrics.text().lines().count();
        assert_eq!(lines, 2 + MAX_SERIES + 1);
        assert_eq!(requests.with(&["other", "other"]).value(), (1000 - MAX_SERIES) as u64);
    }

    #[test]
    fn no_count_is_lost_between_threads() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        let times = metrics.histogram(MetricInfo { name: "t", help: "T.", labels: &[] }, &[0.5]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (requests, times) = (&requests, &times);
                scope.spawn(move || {
                    for index in 0..1000 {
                        requests.with(&[&(index % 7).to_string(), "2xx"]).add(1);
                        times.with(&[]).observe(f64::from(thread % 2));
                    }
                });
            }
        });
        let total: u64 = (0..7).map(|index| requests.with(&[&index.to_string(), "2xx"]).value()).sum();
        assert_eq!((total, times.with(&[]).count()), (4000, 4000));
        assert!(metrics.text().contains("\nt_sum 2000\n"), "{}", metrics.text());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_has_metrics() {
        let text = Metrics::new().text();
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e5);
        assert!(value("process_open_fds") >= 3.0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - value("process_start_time_seconds");
        assert!((-2.0..3600.0).contains(&age), "{age}");
    }
}
