//! The numbers of a server's work, for Prometheus.

use std::sync::Arc;

use super::desk::{Desk, Gauges};
use crate::front::listen::Connections;
use crate::front::metrics::{About, Kind, Metrics};

type Read = fn(&Gauges) -> f64;

const WORK: [(&str, &str, Kind, Read); 8] = [
    ("polyhead_queue_sentences", "Sentences that wait.", Kind::Gauge, |own| own.waiting as f64),
    ("polyhead_busy_workers", "Threads that translate.", Kind::Gauge, |own| own.busy as f64),
    ("polyhead_batches_total", "Batches translated.", Kind::Counter, |own| own.batches as f64),
    ("polyhead_sentences_total", "Sentences translated, without remembered ones.", Kind::Counter, |own| {
        own.sentences as f64
    }),
    ("polyhead_source_tokens_total", "Tokens read.", Kind::Counter, |own| own.source_tokens as f64),
    ("polyhead_target_tokens_total", "Tokens written.", Kind::Counter, |own| own.target_tokens as f64),
    ("polyhead_cache_hits_total", "Sentences that were remembered.", Kind::Counter, |own| {
        own.remembered as f64
    }),
    ("polyhead_cache_bytes", "Bytes of what is remembered.", Kind::Gauge, |own| own.cache_bytes as f64),
];

/// Adds those of a desk and of its connections.
pub(super) fn add(metrics: &Metrics, desk: &Arc<Desk>, connections: &Arc<Connections>) {
    for (name, help, kind, read) in WORK {
        let desk = desk.clone();
        metrics.reading(About { name, help, labels: &[] }, kind, move || Some(read(&desk.gauges())));
    }
    let open = connections.clone();
    let about = About { name: "polyhead_connections", help: "Open connections.", labels: &[] };
    metrics.reading(about, Kind::Gauge, move || Some(open.open() as f64));
    let accepted = connections.clone();
    let about = About { name: "polyhead_connections_total", help: "Connections accepted.", labels: &[] };
    metrics.reading(about, Kind::Counter, move || Some(accepted.accepted() as f64));
}
