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

type Read = fn(&GenerationCounters) -> f64;

const METRICS: [(&str, &str, MetricKind, Read); 7] = [
    ("polyhead_prompt_tokens_total", "Tokens of prompts read.", MetricKind::Counter, |own| {
        own.prompt_tokens.load(Ordering::Relaxed) as f64
    }),
    ("polyhead_generated_tokens_total", "Tokens generated.", MetricKind::Counter, |own| {
        own.tokens.load(Ordering::Relaxed) as f64
    }),
    ("polyhead_generated_texts_total", "Texts generated.", MetricKind::Counter, |own| {
        own.texts.load(Ordering::Relaxed) as f64
    }),
    ("polyhead_generation_steps_total", "Steps of running batches.", MetricKind::Counter, |own| {
        own.steps.load(Ordering::Relaxed) as f64
    }),
    (
        "polyhead_generation_pauses_total",
        "Texts that gave up their row to another client.",
        MetricKind::Counter,
        |own| own.pauses.load(Ordering::Relaxed) as f64,
    ),
    ("polyhead_generation_rows", "Texts that are being generated.", MetricKind::Gauge, |own| {
        own.running.load(Ordering::Relaxed) as f64
    }),
    ("polyhead_generation_waiting", "Texts that wait to be generated.", MetricKind::Gauge, |own| {
        own.waiting.load(Ordering::Relaxed) as f64
    }),
];

impl GenerationCounters {
    /// Registers the metrics.
    pub(crate) fn add_to(self: &Arc<Self>, metrics: &Metrics) {
        for (name, help, kind, read) in METRICS {
            let own = self.clone();
            metrics.callback(MetricInfo { name, help, labels: &[] }, kind, move || Some(read(&own)));
        }
        let about = MetricInfo {
            name: "polyhead_first_token_seconds",
            help: "Time from a request to the first token of each of its texts.",
            labels: &[],
        };
        self.first_token.get_or_init(|| metrics.histogram(about, SECONDS).with(&[]));
    }

    /// Counts the first token of a text.
    pub(super) fn first_token(&self, after: Duration) {
        if let Some(histogram) = self.first_token.get() {
            histogram.observe(after.as_secs_f64());
        }
    }
}
