//! Numbers for Prometheus in its text format 0.0.4: counters, gauges and histograms.
//!
//! Labels come from closed sets (a route, a status, a model): never who asked, and never a word of what was asked. Should a set
//! turn out not to be closed, all values past [`MOST_SERIES`] are counted under `other`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::process;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Combinations of labels that a metric may have.
pub const MOST_SERIES: usize = 256;

/// What a metric is called, and what it says.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name, such as `polyhead_requests_total`.
    pub name: &'static str,
    /// A sentence for people.
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
    /// With those of the process, where the system tells them: memory, open files, when it was started.
    pub fn new() -> Self {
        let metrics = Self::default();
        let [memory, files, start] = process::ABOUT;
        metrics.reading(memory, Kind::Gauge, || process::resident_bytes().map(|bytes| bytes as f64));
        metrics.reading(files, Kind::Gauge, || process::open_files().map(|count| count as f64));
        let began = process::start_seconds();
        metrics.reading(start, Kind::Gauge, move || began);
        metrics
    }

    /// A number that only grows.
    pub fn counter(&self, about: About) -> Family<Counter> {
        self.family(about, Kind::Counter, Counter::default)
    }

    /// A number that goes up and down.
    pub fn gauge(&self, about: About) -> Family<Gauge> {
        self.family(about, Kind::Gauge, Gauge::default)
    }

    /// How often values fell into each of some ranges, which end at `bounds`.
    pub fn histogram(&self, about: About, bounds: &'static [f64]) -> Family<Histogram> {
        self.family(about, Kind::Histogram, move || Histogram::new(bounds))
    }

    /// A number that is read when it is asked for; none is left out.
    pub fn reading(&self, about: About, kind: Kind, read: impl Fn() -> Option<f64> + Send + Sync + 'static) {
        self.add(move |text| {
            if let Some(value) = read() {
                head(text, about, kind);
                sample(text, about.name, &[], &number(value));
            }
        });
    }

    /// All of them as text.
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
        about: About,
        kind: Kind,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Family<T> {
        let family = Family(Arc::new(Shared { about, make: Box::new(make), series: RwLock::default() }));
        let own = family.clone();
        self.add(move |text| {
            head(text, about, kind);
            for (values, series) in own.0.series.read().unwrap_or_else(PoisonError::into_inner).iter() {
                let pairs: Vec<(&str, &str)> =
                    about.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
                series.write(text, about.name, &pairs);
            }
        });
        family
    }
}

/// What Prometheus calls a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of ranges.
    Histogram,
}

/// A metric with all combinations of its labels.
pub struct Family<T>(Arc<Shared<T>>);

impl<T> Clone for Family<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Family<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Family({})", self.0.about.name)
    }
}

struct Shared<T> {
    about: About,
    make: Box<dyn Fn() -> T + Send + Sync>,
    /// In the order in which they came; there are few, so that looking through them is quick.
    series: RwLock<Vec<(Vec<String>, Arc<T>)>>,
}

impl<T> Family<T> {
    /// The series of these values of the labels, in the labels' order.
    pub fn with(&self, values: &[&str]) -> Arc<T> {
        assert_eq!(values.len(), self.0.about.labels.len(), "labels of {}", self.0.about.name);
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
        let values = if series.len() >= MOST_SERIES { &others[..] } else { values };
        // Another thread may have been quicker.
        find(&series, values).unwrap_or_else(|| {
            let made = Arc::new((self.0.make)());
            series.push((values.iter().map(|value| (*value).to_owned()).collect(), made.clone()));
            made
        })
    }
}

/// What can be written as lines.
trait Series: Send + Sync + 'static {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]);
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// What it is.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Series for Counter {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        sample(text, name, labels, &self.value().to_string());
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds to it, or takes away.
    pub fn add(&self, change: f64) {
        add_float(&self.0, change);
    }

    /// What it is.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Series for Gauge {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        sample(text, name, labels, &number(self.value()));
    }
}

/// How often values fell into each of some ranges.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is beyond the last.
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
        let range = self.bounds.partition_point(|bound| *bound < value);
        self.counts[range].fetch_add(1, Ordering::Relaxed);
        add_float(&self.sum, value);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Series for Histogram {
    fn write(&self, text: &mut String, name: &str, labels: &[(&str, &str)]) {
        // The total is that of the ranges as they were read, so that both agree while others count.
        let mut total = 0;
        let ends = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (count, end) in self.counts.iter().zip(ends) {
            total += count.load(Ordering::Relaxed);
            let end = number(end);
            let labels: Vec<_> = labels.iter().copied().chain([("le", end.as_str())]).collect();
            sample(text, &format!("{name}_bucket"), &labels, &total.to_string());
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        sample(text, &format!("{name}_sum"), labels, &number(sum));
        sample(text, &format!("{name}_count"), labels, &total.to_string());
    }
}

fn add_float(cell: &AtomicU64, change: f64) {
    let add = |bits| Some((f64::from_bits(bits) + change).to_bits());
    // It is always some, so that it always succeeds.
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

/// The two lines before the samples of a metric.
fn head(text: &mut String, about: About, kind: Kind) {
    let About { name, help, .. } = about;
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("a string takes all");
}

/// One line.
fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: &str) {
    text.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(text, "{label}=\"{value}\"").expect("a string takes all");
    }
    if !labels.is_empty() {
        text.push('}');
    }
    writeln!(text, " {value}").expect("a string takes all");
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

    const REQUESTS: About = About { name: "requests_total", help: "Requests.", labels: &["route", "status"] };

    #[test]
    fn the_text_is_that_of_the_format() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        requests.with(&["/translate", "2xx"]).add(3);
        requests.with(&["a\"b\\c\nd", "4xx"]).add(1);
        requests.with(&["/translate", "2xx"]).add(1);
        let open = metrics.gauge(About { name: "open", help: "Open \\ now.\nNot then.", labels: &[] });
        open.with(&[]).add(2.0);
        open.with(&[]).add(-0.5);
        let seconds = About { name: "seconds", help: "Time.", labels: &["route"] };
        let seconds = metrics.histogram(seconds, &[0.1, 1.0]).with(&["/"]);
        for value in [0.1, 0.5, 2.0] {
            seconds.observe(value);
        }
        metrics.reading(About { name: "up", help: "Up.", labels: &[] }, Kind::Gauge, || Some(1.0));
        metrics.reading(About { name: "gone", help: "Gone.", labels: &[] }, Kind::Gauge, || None);
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
    fn a_set_that_is_not_closed_does_not_grow_for_ever() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        for index in 0..1000 {
            requests.with(&[&index.to_string(), "2xx"]).add(1);
        }
        let lines = metrics.text().lines().count();
        assert_eq!(lines, 2 + MOST_SERIES + 1);
        assert_eq!(requests.with(&["other", "other"]).value(), (1000 - MOST_SERIES) as u64);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let metrics = Metrics::default();
        let requests = metrics.counter(REQUESTS);
        let times = metrics.histogram(About { name: "t", help: "T.", labels: &[] }, &[0.5]);
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
    fn the_process_is_told() {
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
