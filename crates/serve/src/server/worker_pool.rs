//! The worker threads: each takes batches of sentences from the queue and translates them on one CPU core.
//!
//! A batch on one thread is decoded without any synchronisation between threads. A single sentence is, too: sharing its
//! small operations between threads takes longer than running them on one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use polyhead_translate::{Evidence, RoutedSentence, TranslateOptions, Translation};
use tokio::sync::mpsc::UnboundedSender;

use super::cache::{Cache, MemorySize};
use super::model_registry::LoadedModel;
use super::queue::{Queue, QueueItem};
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
}

/// Index of a sentence within its request, and its translation or error.
pub(crate) type SentenceResult = (usize, Result<Arc<Translation>, Error>);

impl QueueItem for QueuedSentence {
    type BatchKey = (u64, RequestOptions);

    fn batch_key(&self) -> Self::BatchKey {
        (self.key.serial, self.key.options.clone())
    }

    fn tokens(&self) -> usize {
        // An estimate: about four letters a token. The exact count would cost a tenth of the translation's time.
        self.key.passage.text.len() / 4 + 2
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

pub(crate) type TranslationCache = Mutex<Cache<CacheKey, Translation>>;

/// State shared by all worker threads.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    pub(crate) queue: Queue<QueuedSentence>,
    pub(crate) cache: TranslationCache,
    pub(crate) counters: Counters,
    /// Workers that are translating a batch now.
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
    pub(crate) microseconds: AtomicU64,
    /// Tokens as the queue estimates them.
    pub(crate) tokens: AtomicU64,
}

impl WorkerPool {
    /// Translates batches until the queue is closed and empty.
    pub(crate) fn work(&self, pool: &rayon::ThreadPool) {
        while let Some(batch) = self.queue.take() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let start = Instant::now();
            let tokens: usize = batch.iter().map(QueueItem::tokens).sum();
            pool.install(|| self.translate(batch));
            self.counters.batches.fetch_add(1, Ordering::Relaxed);
            self.counters.tokens.fetch_add(tokens as u64, Ordering::Relaxed);
            self.counters.microseconds.fetch_add(start.elapsed().as_micros() as u64, Ordering::Relaxed);
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Translates a batch and sends the replies; a batch that fails is tried again sentence by sentence.
    fn translate(&self, batch: Vec<QueuedSentence>) {
        let found = run(&batch);
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
            Err(_) => sentences.for_each(|sentence| self.translate(vec![sentence])),
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
fn run(batch: &[QueuedSentence]) -> Result<Vec<Translation>, Error> {
    let Some(first) = batch.first() else { return Ok(Vec::new()) };
    let options = first.key.options.translate_options();
    let passages: Vec<RoutedSentence> = batch.iter().map(|sentence| sentence.key.passage.clone()).collect();
    let is_wanted = || !batch.iter().all(QueueItem::is_abandoned);
    let work = || first.loaded.engine.translate_sentences_while(&passages, &options, &is_wanted);
    let found = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic))?;
    Ok(found?)
}
