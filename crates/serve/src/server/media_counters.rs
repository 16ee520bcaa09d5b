//! Totals of sounds and images, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::scheduler::Scheduler;
use super::worker_pool::SpeedMeter;
use crate::front::metrics::{MetricInfo, MetricKind, Metrics};

/// Totals since the start.
#[derive(Debug, Default)]
pub(crate) struct MediaCounters {
    items: AtomicU64,
    /// Seconds of sound or pixels of images, in thousandths.
    amount: AtomicU64,
    /// Steps of sounds, or batches of images.
    pub(crate) steps: AtomicU64,
    pub(crate) meter: SpeedMeter,
}

/// Totals of sounds or images since the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaGauges {
    /// Sounds or images that were answered.
    pub items: u64,
    /// Their seconds or pixels.
    pub amount: f64,
    /// Steps of sounds, or batches of images.
    pub steps: u64,
}

type Read = fn(&Scheduler) -> f64;

const SOUNDS: [(&str, &str, Read); 3] = [
    ("polyhead_sounds_total", "Sounds transcribed.", |own| own.speech_gauges().items as f64),
    ("polyhead_sound_seconds_total", "Seconds of sound transcribed.", |own| own.speech_gauges().amount),
    ("polyhead_sound_steps_total", "Steps of transcriptions.", |own| own.speech_gauges().steps as f64),
];
const IMAGES: [(&str, &str, Read); 3] = [
    ("polyhead_images_total", "Images classified.", |own| own.image_gauges().items as f64),
    ("polyhead_image_pixels_total", "Pixels of images classified.", |own| own.image_gauges().amount),
    ("polyhead_image_batches_total", "Batches of images classified.", |own| own.image_gauges().steps as f64),
];

impl MediaCounters {
    /// Counts a sound or an image with its seconds or pixels.
    pub(crate) fn add_item(&self, amount: f64) {
        self.items.fetch_add(1, Ordering::Relaxed);
        self.amount.fetch_add((amount * 1e3) as u64, Ordering::Relaxed);
    }

    /// The numbers now.
    pub(crate) fn gauges(&self) -> MediaGauges {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (items, steps) = (load(&self.items), load(&self.steps));
        MediaGauges { items, amount: load(&self.amount) as f64 / 1e3, steps }
    }
}

/// Registers the metrics of a scheduler with recognisers or image classifiers.
pub(super) fn add(metrics: &Metrics, scheduler: &Arc<Scheduler>) {
    let sounds = if scheduler.speech_models().is_empty() { &SOUNDS[..0] } else { &SOUNDS };
    let images = if scheduler.image_models().is_empty() { &IMAGES[..0] } else { &IMAGES };
    for &(name, help, read) in sounds.iter().chain(images) {
        let scheduler = scheduler.clone();
        let info = MetricInfo { name, help, labels: &[] };
        metrics.callback(info, MetricKind::Counter, move || Some(read(&scheduler)));
    }
}
