//! The worker threads: each takes batches from the queue, and translates sentences, encodes texts, classifies images or transcribes a
//! window of a sound on one CPU core.
//!
//! A batch on one thread is decoded without any synchronisation between threads. A single sentence is, too: sharing its
//! small operations between threads takes longer than running them on one.
//!
//! Between two steps of decoding, a worker looks for a lighter batch of a client whose turn it is, and translates that
//! first: the translation of a sentence depends on nothing else, so its neighbours cannot change it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polyhead_translate::{Evidence, RoutedSentence, TranslateOptions, Translation};
use tokio::sync::mpsc::UnboundedSender;

use super::cache::{Cache, MemorySize};
use super::encoder::{EncoderCounters, QueuedText};
use super::images::QueuedImage;
use super::media_counters::MediaCounters;
use super::model_registry::LoadedModel;
use super::queue::{Batch, Queue, QueueItem as _};
use super::work::{QueuedWork, WorkBatch};
use crate::Error;

/// Options of a translation that a request may set; `None` takes the value of the model folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestOptions {
    /// Hypotheses of beam search.
    pub beam_size: Option<usize>,
    /// Translations of each text, best first; default: 1.
    pub n_best: usize,
    /// Evidence to compute with the translation; default: none.
    pub evidence: Evidence,
    /// Words or phrases that the translation of each text must contain; default: none.
    pub lexical: Arc<[String]>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { beam_size: None, n_best: 1, evidence: Evidence::None, lexical: Arc::default() }
    }
}

impl RequestOptions {
    /// The options in the translator's type.
    pub(crate) fn translate_options(&self) -> TranslateOptions {
        let Self { beam_size, n_best, evidence, ref lexical } = *self;
        TranslateOptions {
            beam_size,
            n_best,
            evidence,
            lexical: lexical.to_vec(),
            ..TranslateOptions::default()
        }
    }
}

/// Cache key of a translated sentence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    /// Serial number of the loaded model.
    pub(crate) serial: u64,
    pub(crate) options: RequestOptions,
    pub(crate) passage: RoutedSentence,
}

impl MemorySize for CacheKey {
    fn bytes(&self) -> usize {
        let phrases: usize = self.options.lexical.iter().map(|own| size_of_val(own) + own.capacity()).sum();
        size_of::<Self>() + self.passage.text.capacity() + phrases
    }
}

impl MemorySize for Translation {
    fn bytes(&self) -> usize {
        let texts: usize = self.n_best.iter().map(|own| size_of_val(own) + own.text.capacity()).sum();
        let pairs = self.alignment.as_ref().map_or(0, |pairs| pairs.capacity() * size_of::<(usize, usize)>());
        // Notes quote at most short parts of the text.
        size_of::<Self>() + texts + pairs + self.notes.len() * 256
    }
}

/// A sentence that waits in the queue for its translation.
#[derive(Debug)]
pub(crate) struct QueuedSentence {
    pub(crate) key: CacheKey,
    pub(crate) loaded: Arc<LoadedModel>,
    /// Index among the sentences of its request.
    pub(crate) index: usize,
    pub(crate) reply: UnboundedSender<SentenceResult>,
    /// Tokens × hypotheses × hops.
    pub(crate) work: usize,
}

/// Tokens of a sentence, an estimate: about four letters a token. The exact count would cost a tenth of the translation's
/// time.
fn tokens(passage: &RoutedSentence) -> usize {
    passage.text.len() / 4 + 2
}

/// The work of a sentence: tokens × hypotheses × hops.
pub(crate) fn work(passage: &RoutedSentence, options: &RequestOptions, loaded: &LoadedModel) -> usize {
    let own = loaded.engine.generation().beam_size;
    let width = options.beam_size.unwrap_or(own).max(options.n_best).max(1);
    tokens(passage) * width * passage.n_hops().max(1)
}

/// Index of a sentence within its request, and its translation or error.
pub(crate) type SentenceResult = (usize, Result<Arc<Translation>, Error>);

impl QueuedSentence {
    pub(crate) fn tokens(&self) -> usize {
        tokens(&self.key.passage)
    }

    /// True if the request was cancelled.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

pub(crate) type TranslationCache = Mutex<Cache<CacheKey, Translation>>;

/// State shared by all worker threads.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    pub(crate) queue: Queue<QueuedWork>,
    pub(crate) cache: TranslationCache,
    pub(crate) counters: Counters,
    pub(crate) encoder_counters: EncoderCounters,
    pub(crate) image_counters: MediaCounters,
    pub(crate) speech_counters: MediaCounters,
    /// Workers that have a batch now.
    pub(crate) busy: AtomicUsize,
}

/// Totals since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) sentences: AtomicU64,
    pub(crate) source_tokens: AtomicU64,
    pub(crate) target_tokens: AtomicU64,
    pub(crate) cache_hits: AtomicU64,
    pub(crate) meter: SpeedMeter,
}

/// Work that was done, as the queue estimates it, and the time that it took.
#[derive(Debug, Default)]
pub(crate) struct SpeedMeter {
    work: AtomicU64,
    microseconds: AtomicU64,
}

impl SpeedMeter {
    fn add(&self, work: usize, microseconds: u64) {
        self.work.fetch_add(work as u64, Ordering::Relaxed);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Work and seconds so far.
    pub(crate) fn total(&self) -> (f64, f64) {
        let [work, time] = [&self.work, &self.microseconds].map(|own| own.load(Ordering::Relaxed) as f64);
        (work, time / 1e6)
    }
}

impl WorkerPool {
    /// Takes batches until the queue is closed and empty.
    pub(crate) fn work(&self, pool: &rayon::ThreadPool) {
        while let Some(batch) = self.queue.take() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            pool.install(|| self.run(batch));
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Runs a batch, and before its rest those that are more urgent; returns the time of all.
    fn run(&self, batch: Batch<QueuedWork>) -> Duration {
        let start = Instant::now();
        let Batch { items, weight, time } = batch;
        let work: usize = items.iter().map(QueuedWork::work).sum();
        let between = AtomicU64::new(0);
        let look = || {
            while let Some(urgent) = self.queue.take_urgent(weight, time) {
                between.fetch_add(self.run(urgent).as_micros() as u64, Ordering::Relaxed);
            }
        };
        let meter = match WorkBatch::new(items) {
            WorkBatch::Sentences(sentences) => {
                self.translate(sentences, &look);
                self.counters.batches.fetch_add(1, Ordering::Relaxed);
                &self.counters.meter
            }
            WorkBatch::Texts(texts) => {
                self.encode(texts, &look);
                self.encoder_counters.batches.fetch_add(1, Ordering::Relaxed);
                &self.encoder_counters.meter
            }
            WorkBatch::Images(images) => {
                QueuedImage::run(images, &look, &self.image_counters);
                self.image_counters.steps.fetch_add(1, Ordering::Relaxed);
                &self.image_counters.meter
            }
            WorkBatch::Sounds(sounds) => {
                for sound in sounds {
                    sound.run(&look, &self.speech_counters);
                    self.speech_counters.steps.fetch_add(1, Ordering::Relaxed);
                }
                &self.speech_counters.meter
            }
        };
        let took = start.elapsed();
        meter.add(work, (took.as_micros() as u64).saturating_sub(between.into_inner()));
        took
    }

    /// Encodes a batch and sends the replies; a batch that fails is tried again text by text. `between` is called between
    /// layers.
    fn encode(&self, batch: Vec<QueuedText>, between: &(dyn Fn() + Sync)) {
        match QueuedText::run(&batch, between) {
            Ok(found) => batch
                .into_iter()
                .zip(found)
                .for_each(|(text, own)| text.finish(Ok(own), &self.encoder_counters)),
            Err(error) if batch.len() == 1 => {
                batch.into_iter().zip([error]).for_each(|(text, error)| {
                    text.finish(Err(error), &self.encoder_counters);
                });
            }
            Err(_) => batch.into_iter().for_each(|text| self.encode(vec![text], between)),
        }
    }

    /// Translates a batch and sends the replies; a batch that fails is tried again sentence by sentence. `between` is called
    /// between steps of decoding.
    fn translate(&self, batch: Vec<QueuedSentence>, between: &(dyn Fn() + Sync)) {
        let found = run(&batch, between);
        let mut sentences = batch.into_iter();
        match found {
            Ok(found) => sentences.zip(found).for_each(|(sentence, own)| self.finish(sentence, Ok(own))),
            Err(error) if sentences.len() == 1 => {
                sentences
                    .next()
                    .into_iter()
                    .zip([error])
                    .for_each(|(sentence, error)| self.finish(sentence, Err(error)));
            }
            Err(_) => sentences.for_each(|sentence| self.translate(vec![sentence], between)),
        }
    }

    fn finish(&self, sentence: QueuedSentence, found: Result<Translation, Error>) {
        let found = found.map(Arc::new);
        if let Ok(translation) = &found {
            let Counters { sentences, source_tokens, target_tokens, .. } = &self.counters;
            sentences.fetch_add(1, Ordering::Relaxed);
            source_tokens.fetch_add(translation.source_tokens as u64, Ordering::Relaxed);
            target_tokens.fetch_add(translation.best().tokens as u64, Ordering::Relaxed);
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert(sentence.key, translation.clone());
        }
        // The client may have disconnected.
        let _ = sentence.reply.send((sentence.index, found));
    }
}

/// Translates a batch, whose sentences share one model and one set of options.
fn run(batch: &[QueuedSentence], between: &(dyn Fn() + Sync)) -> Result<Vec<Translation>, Error> {
    let Some(first) = batch.first() else { return Ok(Vec::new()) };
    let options = first.key.options.translate_options();
    let passages: Vec<RoutedSentence> = batch.iter().map(|sentence| sentence.key.passage.clone()).collect();
    let is_wanted = || {
        between();
        !batch.iter().all(QueuedSentence::is_abandoned)
    };
    let work = || first.loaded.engine.translate_sentences_while(&passages, &options, &is_wanted);
    let found = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic))?;
    Ok(found?)
}
