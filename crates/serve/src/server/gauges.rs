//! Prometheus metrics of the scheduler, of text generation, of encoders and of connections.

use std::sync::Arc;

use super::encoder::EncoderGauges;
use super::media_counters;
use super::scheduler::{Scheduler, SchedulerGauges};
use crate::front::listen::Connections;
use crate::front::metrics::{MetricInfo, MetricKind, Metrics};

type Read = fn(&SchedulerGauges) -> f64;

const SCHEDULER: [(&str, &str, MetricKind, Read); 8] = [
    (
        "polyhead_queue_sentences",
        "Sentences, and texts for encoders, in the queue.",
        MetricKind::Gauge,
        |own| own.waiting as f64,
    ),
    ("polyhead_busy_workers", "Worker threads that have a batch.", MetricKind::Gauge, |own| own.busy as f64),
    ("polyhead_batches_total", "Batches translated.", MetricKind::Counter, |own| own.batches as f64),
    ("polyhead_sentences_total", "Sentences translated, cache hits excluded.", MetricKind::Counter, |own| {
        own.sentences as f64
    }),
    ("polyhead_source_tokens_total", "Source tokens read.", MetricKind::Counter, |own| {
        own.source_tokens as f64
    }),
    ("polyhead_target_tokens_total", "Target tokens written.", MetricKind::Counter, |own| {
        own.target_tokens as f64
    }),
    ("polyhead_cache_hits_total", "Sentences answered from the cache.", MetricKind::Counter, |own| {
        own.cache_hits as f64
    }),
    ("polyhead_cache_bytes", "Bytes in the translation cache.", MetricKind::Gauge, |own| {
        own.cache_bytes as f64
    }),
];

/// Registers the metrics of a scheduler and of connections.
pub(super) fn add(metrics: &Metrics, scheduler: &Arc<Scheduler>, connections: &Arc<Connections>) {
    for (name, help, kind, read) in SCHEDULER {
        let scheduler = scheduler.clone();
        metrics
            .callback(MetricInfo { name, help, labels: &[] }, kind, move || Some(read(&scheduler.gauges())));
    }
    if !scheduler.language_models().is_empty() {
        scheduler.generation().add_to(metrics);
    }
    if !scheduler.encoders().is_empty() {
        EncoderGauges::add_to(metrics, scheduler);
    }
    media_counters::add(metrics, scheduler);
    let open = connections.clone();
    let about = MetricInfo { name: "polyhead_connections", help: "Open connections.", labels: &[] };
    metrics.callback(about, MetricKind::Gauge, move || Some(open.open() as f64));
    let accepted = connections.clone();
    let about = MetricInfo { name: "polyhead_connections_total", help: "Connections accepted.", labels: &[] };
    metrics.callback(about, MetricKind::Counter, move || Some(accepted.accepted() as f64));
}
