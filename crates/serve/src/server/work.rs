//! Those who translate: threads that take batches from the queue, each with a processor core of its own.
//!
//! A batch on one thread is decoded without a thread waiting for another. A sentence by itself is too: threads that share its
//! small operations take longer than one alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use polyhead_translate::{Evidence, Passage, TranslateOptions, Translation};
use tokio::sync::mpsc::UnboundedSender;

use super::cache::{Bytes, Cache};
use super::queue::{Queue, Waiting};
use super::shelf::Loaded;
use crate::Error;

/// What is wanted of a translation; what is none is as the model's folder says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Hypotheses followed.
    pub beam_size: Option<usize>,
    /// Translations of each text, best first; 1.
    pub n_best: usize,
    /// What is computed besides; nothing.
    pub evidence: Evidence,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { beam_size: None, n_best: 1, evidence: Evidence::None }
    }
}

impl Wanted {
    /// The same for the translator.
    pub(crate) fn options(&self) -> TranslateOptions {
        let Self { beam_size, n_best, evidence } = *self;
        TranslateOptions { beam_size, n_best, evidence, ..TranslateOptions::default() }
    }
}

/// What a translation is remembered by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Of the model.
    pub(crate) serial: u64,
    pub(crate) wanted: Wanted,
    pub(crate) passage: Passage,
}

impl Bytes for Key {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.passage.text.capacity()
    }
}

impl Bytes for Translation {
    fn bytes(&self) -> usize {
        let texts: usize = self.n_best.iter().map(|own| size_of_val(own) + own.text.capacity()).sum();
        let pairs = self.alignment.as_ref().map_or(0, |pairs| pairs.capacity() * size_of::<(usize, usize)>());
        // Notes name pieces of the text at most.
        size_of::<Self>() + texts + pairs + self.notes.len() * 256
    }
}

/// A sentence that waits for its translation.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) key: Key,
    pub(crate) loaded: Arc<Loaded>,
    /// Its place among those of its request.
    pub(crate) index: usize,
    pub(crate) reply: UnboundedSender<Done>,
}

/// What came of a sentence.
pub(crate) type Done = (usize, Result<Arc<Translation>, Error>);

impl Waiting for Unit {
    type Kind = (u64, Wanted);

    fn kind(&self) -> Self::Kind {
        (self.key.serial, self.key.wanted)
    }

    fn tokens(&self) -> usize {
        // A token is some four letters; the exact number would cost as much as a tenth of translating.
        self.key.passage.text.len() / 4 + 2
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

pub(crate) type Memory = Mutex<Cache<Key, Translation>>;

/// What workers have in common.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) queue: Queue<Unit>,
    pub(crate) memory: Memory,
    pub(crate) tally: Tally,
    /// Workers that have a batch.
    pub(crate) busy: AtomicUsize,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) batches: AtomicU64,
    pub(crate) sentences: AtomicU64,
    pub(crate) source_tokens: AtomicU64,
    pub(crate) target_tokens: AtomicU64,
    pub(crate) remembered: AtomicU64,
    pub(crate) microseconds: AtomicU64,
    /// Of the queue's count.
    pub(crate) tokens: AtomicU64,
}

impl Workshop {
    /// Works until the queue is closed and empty.
    pub(crate) fn work(&self, pool: &rayon::ThreadPool) {
        while let Some(batch) = self.queue.take() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let start = Instant::now();
            let tokens: usize = batch.iter().map(Waiting::tokens).sum();
            pool.install(|| self.translate(batch));
            self.tally.batches.fetch_add(1, Ordering::Relaxed);
            self.tally.tokens.fetch_add(tokens as u64, Ordering::Relaxed);
            self.tally.microseconds.fetch_add(start.elapsed().as_micros() as u64, Ordering::Relaxed);
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Translates a batch and answers those who wait; if that fails as a whole, each by itself.
    fn translate(&self, batch: Vec<Unit>) {
        let found = run(&batch);
        let mut units = batch.into_iter();
        match found {
            Ok(found) => units.zip(found).for_each(|(unit, own)| self.finish(unit, Ok(own))),
            Err(error) if units.len() == 1 => {
                units.next().into_iter().zip([error]).for_each(|(unit, error)| self.finish(unit, Err(error)));
            }
            Err(_) => units.for_each(|unit| self.translate(vec![unit])),
        }
    }

    fn finish(&self, unit: Unit, found: Result<Translation, Error>) {
        let found = found.map(Arc::new);
        if let Ok(translation) = &found {
            let Tally { sentences, source_tokens, target_tokens, .. } = &self.tally;
            sentences.fetch_add(1, Ordering::Relaxed);
            source_tokens.fetch_add(translation.source_tokens as u64, Ordering::Relaxed);
            target_tokens.fetch_add(translation.best().tokens as u64, Ordering::Relaxed);
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.insert(unit.key, translation.clone());
        }
        // Whoever asked may have gone.
        let _ = unit.reply.send((unit.index, found));
    }
}

/// The translations of a batch, which has one model and one wish.
fn run(batch: &[Unit]) -> Result<Vec<Translation>, Error> {
    let Some(first) = batch.first() else { return Ok(Vec::new()) };
    let options = first.key.wanted.options();
    let passages: Vec<Passage> = batch.iter().map(|unit| unit.key.passage.clone()).collect();
    let go_on = || !batch.iter().all(Waiting::is_abandoned);
    let work = || first.loaded.engine.translate_passages_while(&passages, &options, &go_on);
    let found = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::of_panic(&*panic))?;
    Ok(found?)
}
