//! Totals of encoders, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::front::metrics::{MetricInfo, MetricKind, Metrics};
use crate::server::scheduler::Scheduler;
use crate::server::worker_pool::SpeedMeter;

/// Totals since the start.
#[derive(Debug, Default)]
pub(crate) struct EncoderCounters {
    pub(crate) texts: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) meter: SpeedMeter,
}

/// Totals of encoders since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderGauges {
    /// Texts encoded.
    pub texts: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Batches of texts.
    pub batches: u64,
}

type Read = fn(&EncoderGauges) -> u64;

const METRICS: [(&str, &str, Read); 3] = [
    ("polyhead_encoder_texts_total", "Texts and pairs encoded.", |own| own.texts),
    ("polyhead_encoder_tokens_total", "Tokens of texts encoded.", |own| own.tokens),
    ("polyhead_encoder_batches_total", "Batches of texts encoded.", |own| own.batches),
];

impl EncoderCounters {
    /// The numbers now.
    pub(crate) fn gauges(&self) -> EncoderGauges {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EncoderGauges { texts: load(&self.texts), tokens: load(&self.tokens), batches: load(&self.batches) }
    }
}

impl EncoderGauges {
    /// Registers the metrics of a scheduler with encoders.
    pub(crate) fn add_to(metrics: &Metrics, scheduler: &Arc<Scheduler>) {
        for (name, help, read) in METRICS {
            let scheduler = scheduler.clone();
            let info = MetricInfo { name, help, labels: &[] };
            let value = move || Some(read(&scheduler.encoder_gauges()) as f64);
            metrics.callback(info, MetricKind::Counter, value);
        }
    }
}
