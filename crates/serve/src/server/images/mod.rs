//! Image classifiers for many clients.
//!
//! [`LoadedImages`] is a classifier in the model registry, [`QueuedImage`] a file that waits in the queue: worker threads decode it
//! and run batches of images. `call.rs` is a call: it checks the size of an image, reserves its memory, and waits for the classes.
//!
//! What is computed of an image depends on nothing else in its batch, to the bit.

mod call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use polyhead_attention::Watch;
use polyhead_engine::classify::Class;
use polyhead_engine::image::{ImageLimits, ImageOptions, ImageSummary, decode};
use polyhead_engine::{ImageClassifier, LoadOptions};
use tokio::sync::oneshot;

use super::media_counters::MediaCounters;
use crate::{Error, Result};

pub(crate) use call::ImageCall;

/// Pixels that take as long to decode as a token takes in the model, about.
const PIXELS: usize = 1 << 14;

/// A loaded classifier; requests keep it alive while a reload replaces it.
#[derive(Debug)]
pub struct LoadedImages {
    /// The model.
    pub classifier: ImageClassifier,
    /// Name by which clients choose it.
    pub name: String,
    /// Serial number, unique among all models ever loaded.
    pub serial: u64,
}

/// A classifier in the answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageEntry {
    /// Its name.
    pub name: String,
    /// True if it is in memory.
    pub is_loaded: bool,
    /// What is known of it without its weights.
    pub summary: Arc<ImageSummary>,
}

impl LoadedImages {
    pub(crate) fn load((name, folder): (&str, &Path), options: &LoadOptions, serial: u64) -> Result<Self> {
        let classifier = ImageClassifier::load(folder, options, ImageOptions::default())?;
        Ok(Self { classifier, name: name.to_owned(), serial })
    }
}

/// A file that waits for its classes.
#[derive(Debug)]
pub(crate) struct QueuedImage {
    pub(crate) loaded: Arc<LoadedImages>,
    /// A PNG or JPEG file, whose size was checked.
    pub(crate) file: Bytes,
    pub(crate) limits: ImageLimits,
    /// Number of its pixels.
    pub(crate) pixels: usize,
    pub(crate) reply: oneshot::Sender<Result<Vec<Class>>>,
}

impl QueuedImage {
    /// Tokens of the model.
    pub(crate) fn tokens(&self) -> usize {
        self.loaded.classifier.length()
    }

    /// Tokens of the model, and what decoding costs.
    pub(crate) fn work(&self) -> usize {
        self.tokens() + self.pixels / PIXELS
    }

    /// True if the request was cancelled.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// The numbers that the model reads.
    fn prepared(&self) -> Result<Vec<f32>> {
        let read = || {
            let picture = decode::decode(&self.file, Path::new("image"), self.limits)
                .map_err(|error| Error::unreadable(&error))?;
            Ok(self.loaded.classifier.prepared(&picture))
        };
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
    }

    /// Classifies a batch, whose images share one model, and sends the classes. `between` is called between layers.
    pub(crate) fn run(batch: Vec<Self>, between: &(dyn Fn() + Sync), counters: &MediaCounters) {
        let (mut images, mut numbers) = (Vec::new(), Vec::new());
        for image in batch {
            match image.prepared() {
                Ok(own) => {
                    numbers.push(own);
                    images.push(image);
                }
                Err(error) => drop(image.reply.send(Err(error))),
            }
        }
        let Some(first) = images.first() else { return };
        let is_wanted = || {
            between();
            !images.iter().all(Self::is_abandoned)
        };
        let classifier = &first.loaded.classifier;
        let work = || classifier.classify_normalised(&numbers, Some(Watch(&is_wanted)));
        let found = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic));
        match found.and_then(|found| Ok(found?)) {
            Ok(found) => {
                for (image, classes) in images.into_iter().zip(found) {
                    let is_finite = classes.iter().all(|class| class.probability.is_finite());
                    let error = || Error::Panicked { found: "NaN or infinite numbers".into() };
                    counters.add_item(image.pixels as f64);
                    // The client may have disconnected.
                    let _ = image.reply.send(if is_finite { Ok(classes) } else { Err(error()) });
                }
            }
            Err(error) if images.len() == 1 => {
                images.into_iter().zip([error]).for_each(|(image, error)| drop(image.reply.send(Err(error))));
            }
            Err(_) => images.into_iter().for_each(|image| Self::run(vec![image], between, counters)),
        }
    }
}
