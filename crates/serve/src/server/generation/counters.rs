//! Totals of text generation, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::front::metrics::{Histogram, MetricInfo, MetricKind, Metrics};

/// Upper bounds of the times to the first token, in seconds.
const SECONDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Totals since the start, and what runs now.
#[derive(Debug, Default)]
pub(crate) struct GenerationCounters {
    /// Tokens of prompts that were read, those that were known from before included.
    pub(crate) prompt_tokens: AtomicU64,
    /// Tokens that were generated.
    pub(crate) tokens: AtomicU64,
    /// Texts that were finished.
    pub(crate) texts: AtomicU64,
    /// Steps of running batches.
    pub(crate) steps: AtomicU64,
    /// Texts that gave up their row to another client.
    pub(crate) pauses: AtomicU64,
    /// Texts that take part in steps now.
    pub(crate) running: AtomicUsize,
    /// Texts that wait for their turn.
    pub(crate) waiting: AtomicUsize,
    first_token: OnceLock<Arc<Histogram>>,
}

/// Totals of text generation since the start, and what runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationGauges {
    /// Tokens of prompts that were read, those that were known from before included.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub tokens: u64,
    /// Texts finished.
    pub texts: u64,
    /// Steps of running batches.
    pub steps: u64,
    /// Texts that gave up their row to another client.
    pub pauses: u64,
    /// Texts that take part in steps now.
    pub running: usize,
    /// Texts that wait for their turn.
    pub waiting: usize,
}

type Read = fn(&GenerationGauges) -> f64;

const METRICS: [(&str, &str, MetricKind, Read); 7] = [
    ("polyhead_prompt_tokens_total", "Tokens of prompts read.", MetricKind::Counter, |own| {
        own.prompt_tokens as f64
    }),
    ("polyhead_generated_tokens_total", "Tokens generated.", MetricKind::Counter, |own| own.tokens as f64),
    ("polyhead_generated_texts_total", "Texts generated.", MetricKind::Counter, |own| own.texts as f64),
    ("polyhead_generation_steps_total", "Steps of running batches.", MetricKind::Counter, |own| {
        own.steps as f64
    }),
    (
        "polyhead_generation_pauses_total",
        "Texts that gave up their row to another client.",
        MetricKind::Counter,
        |own| own.pauses as f64,
    ),
    ("polyhead_generation_rows", "Texts that are being generated.", MetricKind::Gauge, |own| {
        own.running as f64
    }),
    ("polyhead_generation_waiting", "Texts that wait to be generated.", MetricKind::Gauge, |own| {
        own.waiting as f64
    }),
];

impl GenerationCounters {
    /// Registers the metrics.
    pub(crate) fn add_to(self: &Arc<Self>, metrics: &Metrics) {
        for (name, help, kind, read) in METRICS {
            let own = self.clone();
            metrics.callback(MetricInfo { name, help, labels: &[] }, kind, move || Some(read(&own.gauges())));
        }
        let about = MetricInfo {
            name: "polyhead_first_token_seconds",
            help: "Time from a request to the first token of each of its texts.",
            labels: &[],
        };
        self.first_token.get_or_init(|| metrics.histogram(about, SECONDS).with(&[]));
    }

    /// The numbers now.
    pub(crate) fn gauges(&self) -> GenerationGauges {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        GenerationGauges {
            prompt_tokens: load(&self.prompt_tokens),
            tokens: load(&self.tokens),
            texts: load(&self.texts),
            steps: load(&self.steps),
            pauses: load(&self.pauses),
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Replaces what a runner showed before, running and waiting texts, by what it has now.
    pub(super) fn show(&self, before: [usize; 2], now: [usize; 2]) {
        for (gauge, index) in [(&self.running, 0), (&self.waiting, 1)] {
            gauge.fetch_add(now[index], Ordering::Relaxed);
            gauge.fetch_sub(before[index], Ordering::Relaxed);
        }
    }

    /// Counts the first token of a text.
    pub(super) fn first_token(&self, after: Duration) {
        if let Some(histogram) = self.first_token.get() {
            histogram.observe(after.as_secs_f64());
        }
    }
}
