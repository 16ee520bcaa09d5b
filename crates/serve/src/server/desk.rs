//! Where requests come in: texts become sentences, which are remembered, or wait in the queue and are translated in batches;
//! then the texts are put together again.
//!
//! Every answer is what `polyhead translate` gives for the same text: a sentence's translation depends on nothing else.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polyhead_translate::{LoadOptions, Outline, Passage, TranslateOptions, Translation};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::cache::Cache;
use super::queue::{Full, Queue, QueueOptions};
use super::shelf::{LanguageAnswer, Loaded, ModelEntry, ModelFolder, Shelf};
pub use super::work::Wanted;
use super::work::{Done, Key, Tally, Unit, Workshop};
use crate::blocking::blocking;
use crate::front::process::resident_bytes;
pub use crate::front::rate::Client;
use crate::{Error, Result};

/// How a desk works.
#[derive(Debug, Clone)]
pub struct DeskOptions {
    /// The models; the first is loaded at the start, the others when somebody asks for one. None.
    pub models: Vec<ModelFolder>,
    /// How models are loaded; as their files are.
    pub load: LoadOptions,
    /// Threads that translate; 1.
    pub threads: usize,
    /// Sentences that may wait; 4096.
    pub waiting: usize,
    /// Tokens of a batch; 256.
    pub batch_tokens: usize,
    /// How long a sentence waits for others where a thread is free; 0.2 ms.
    pub window: Duration,
    /// Bytes of translations that are remembered; 64 MiB.
    pub cache_bytes: usize,
    /// Most bytes of the whole program; none, so as many as it takes.
    pub max_memory: Option<u64>,
}

impl Default for DeskOptions {
    fn default() -> Self {
        let QueueOptions { waiting, batch_tokens, window, workers } = QueueOptions::default();
        Self {
            models: Vec::new(),
            load: LoadOptions::default(),
            threads: workers,
            waiting,
            batch_tokens,
            window,
            cache_bytes: 64 << 20,
            max_memory: None,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    /// By whom; all have their turn.
    pub client: Client,
    /// The texts.
    pub texts: Vec<String>,
    /// Their language; guessed.
    pub from: Option<String>,
    /// The language to translate into; as the model chooses.
    pub to: Option<String>,
    /// The name of a model; the first that can do it.
    pub model: Option<String>,
    /// What is wanted.
    pub wanted: Wanted,
    /// Until when.
    pub deadline: Instant,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The model that did it.
    pub model: String,
    /// One translation for each text.
    pub translations: Vec<Translation>,
}

/// A sentence that is done, and all before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The index of its text.
    pub text: usize,
    /// Its index in the text.
    pub sentence: usize,
    /// The sentence.
    pub source: String,
    /// Its translation.
    pub translation: String,
}

/// Models, queue and workers of a server.
#[derive(Debug)]
pub struct Desk {
    shelf: Arc<Shelf>,
    workshop: Arc<Workshop>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    max_memory: Option<u64>,
    threads: usize,
}

impl Desk {
    /// Loads the first model and sets the workers to work.
    ///
    /// # Errors
    /// If a folder holds no model, memory cannot be enough, or no thread can be started.
    pub fn open(options: DeskOptions) -> Result<Self> {
        let DeskOptions { waiting, batch_tokens, window, threads, max_memory, .. } = options;
        let threads = threads.max(1);
        let shelf = Arc::new(Shelf::open(&options.models, options.load, max_memory)?);
        let queue = Queue::new(QueueOptions { waiting, batch_tokens, window, workers: threads });
        let memory = Mutex::new(Cache::new(options.cache_bytes));
        let (tally, busy) = Default::default();
        let workshop = Arc::new(Workshop { queue, memory, tally, busy });
        let mut workers = Vec::new();
        for number in 0..threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let pool = pool.map_err(|error| Error::Server(std::io::Error::other(error)))?;
            let own = workshop.clone();
            let thread = std::thread::Builder::new().name(format!("translate-{number}"));
            workers.push(thread.spawn(move || own.work(&pool)).map_err(Error::Server)?);
        }
        Ok(Self { shelf, workshop, workers: Mutex::new(workers), max_memory, threads })
    }

    /// Translates texts.
    ///
    /// # Errors
    /// If something asked for makes no sense, or too much waits, or the deadline has passed.
    pub async fn translate(&self, ask: Ask) -> Result<Answered> {
        self.translate_watched(ask, |_| {}).await
    }

    /// The same; `watcher` hears of every sentence as soon as it and all before it are done.
    ///
    /// # Errors
    /// The same.
    pub async fn translate_watched(
        &self,
        ask: Ask,
        watcher: impl FnMut(Finished) + Send,
    ) -> Result<Answered> {
        let deadline = tokio::time::Instant::from_std(ask.deadline);
        let late = || self.busy("the deadline passed while it waited".into());
        // A timer has not been looked at before the first wait.
        if ask.deadline <= Instant::now() {
            return Err(late());
        }
        let answer = tokio::time::timeout_at(deadline, self.answer(ask, watcher)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(&self, ask: Ask, mut watcher: impl FnMut(Finished) + Send) -> Result<Answered> {
        self.check_memory()?;
        let Ask { client, wanted, .. } = ask.clone();
        let shelf = self.shelf.clone();
        let (loaded, outlines) = blocking(move || outlined(&shelf, &ask)).await?;
        let mut pending = Pending::new(&outlines);
        let (reply, mut done) = mpsc::unbounded_channel();
        // A long text comes in slices, so that others find room beside it.
        let slice = (self.workshop.queue.most() / 4).max(1);
        for start in (0..pending.passages.len()).step_by(slice) {
            let end = pending.passages.len().min(start + slice);
            let mut units = self.units(wanted, &loaded, &pending.passages, start..end, &reply);
            while let Err(full) = self.workshop.queue.push(&client, &mut units) {
                // What was begun waits for room; its deadline ends that.
                if start == 0 {
                    return Err(self.refused(&full));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            while pending.done < end {
                // The sender is in our hands, so that somebody always answers.
                let Some((index, found)) = done.recv().await else { break };
                pending.finish(index, found?, &mut watcher);
            }
        }
        let found: Vec<Arc<Translation>> = pending.found.into_iter().flatten().collect();
        let mut rest = found.as_slice();
        let translations = outlines.iter().map(|outline| {
            let (own, others) = rest.split_at(outline.n_passages());
            rest = others;
            outline.join(own)
        });
        Ok(Answered { model: loaded.name.clone(), translations: translations.collect() })
    }

    /// Those of some passages that are not remembered; those that are get their answer at once.
    fn units(
        &self,
        wanted: Wanted,
        loaded: &Arc<Loaded>,
        passages: &[Passage],
        range: Range<usize>,
        reply: &UnboundedSender<Done>,
    ) -> Vec<Unit> {
        let mut units = Vec::new();
        for index in range {
            let key = Key { serial: loaded.serial, wanted, passage: passages[index].clone() };
            if let Some(found) = self.memory().get(&key) {
                self.workshop.tally.remembered.fetch_add(1, Ordering::Relaxed);
                // The receiver is in the asker's hands.
                let _ = reply.send((index, Ok(found)));
            } else {
                units.push(Unit { key, loaded: loaded.clone(), index, reply: reply.clone() });
            }
        }
        units
    }

    fn refused(&self, full: &Full) -> Error {
        match full {
            Full::Everybody(waiting) => self.busy(format!("{waiting} sentences wait")),
            Full::Client(own) => Error::Often {
                found: format!("{own} sentences of this client wait, expected fewer"),
                retry_after: self.wait(),
            },
        }
    }

    /// Seconds until what waits is done.
    fn wait(&self) -> u64 {
        let (_, tokens) = self.workshop.queue.waiting();
        ((tokens as f64 / self.tokens_per_second().max(1.0)).ceil() as u64).clamp(1, 60)
    }

    /// Too much is asked of the server; it says when to come again.
    fn busy(&self, found: String) -> Error {
        Error::Busy { found, retry_after: self.wait() }
    }

    /// Tokens of the queue's count that were translated in a second, of all threads together.
    fn tokens_per_second(&self) -> f64 {
        let Tally { tokens, microseconds, .. } = &self.workshop.tally;
        let seconds = microseconds.load(Ordering::Relaxed) as f64 / 1e6 / self.threads as f64;
        if seconds > 0.0 { tokens.load(Ordering::Relaxed) as f64 / seconds } else { 1000.0 }
    }

    /// An error where the program has more memory than it may; what can be given back is given back first.
    fn check_memory(&self) -> Result<()> {
        let Some(limit) = self.max_memory else { return Ok(()) };
        let is_over = || resident_bytes().is_some_and(|bytes| bytes > limit);
        if is_over() {
            self.memory().clear();
            polyhead_tensor::pool::clear();
            while is_over() && self.shelf.put_one_away() {}
            if is_over() {
                return Err(self.busy(format!("memory is at its limit of {} MiB", limit >> 20)));
            }
        }
        Ok(())
    }

    /// All languages, with what they can be translated into.
    pub fn languages(&self) -> Vec<LanguageAnswer> {
        self.shelf.languages()
    }

    /// All models.
    pub fn models(&self) -> Vec<ModelEntry> {
        self.shelf.models()
    }

    /// A model by its name, the first without one; it may take a while to load.
    ///
    /// # Errors
    /// If there is none, or it cannot be loaded.
    pub fn loaded(&self, model: Option<&str>) -> Result<Arc<Loaded>> {
        let index = if model.is_some() { self.shelf.choose(model, None, None, "")? } else { 0 };
        self.shelf.loaded(index)
    }

    /// Reads all models again, without dropping a request. How many were loaded.
    ///
    /// # Errors
    /// If one cannot be read; all stay as they were then.
    pub fn reload(&self) -> Result<usize> {
        let count = self.shelf.reload()?;
        // Nobody asks for what old models said.
        self.memory().clear();
        Ok(count)
    }

    /// What there is to know about the work.
    pub fn gauges(&self) -> Gauges {
        let Tally { batches, sentences, source_tokens, target_tokens, remembered, .. } = &self.workshop.tally;
        let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Gauges {
            waiting: self.workshop.queue.waiting().0,
            busy: self.workshop.busy.load(Ordering::Relaxed),
            batches: load(batches),
            sentences: load(sentences),
            source_tokens: load(source_tokens),
            target_tokens: load(target_tokens),
            remembered: load(remembered),
            cache_bytes: self.memory().bytes(),
        }
    }

    /// Takes nothing more in and waits until all that waits is translated.
    pub fn close(&self) {
        self.workshop.queue.close();
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // One that panicked is gone all the same.
            let _ = worker.join();
        }
    }

    fn memory(&self) -> MutexGuard<'_, Cache<Key, Translation>> {
        self.workshop.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there is to know about the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauges {
    /// Sentences that wait.
    pub waiting: usize,
    /// Threads that translate.
    pub busy: usize,
    /// Batches translated.
    pub batches: u64,
    /// Sentences translated, without those that were remembered.
    pub sentences: u64,
    /// Tokens read.
    pub source_tokens: u64,
    /// Tokens written.
    pub target_tokens: u64,
    /// Sentences that were remembered.
    pub remembered: u64,
    /// Bytes of what is remembered.
    pub cache_bytes: usize,
}

/// The model for what is asked, and the texts in sentences.
fn outlined(shelf: &Shelf, ask: &Ask) -> Result<(Arc<Loaded>, Vec<Outline>)> {
    let sample = ask.texts.first().map_or("", String::as_str);
    let index = shelf.choose(ask.model.as_deref(), ask.from.as_deref(), ask.to.as_deref(), sample)?;
    let loaded = shelf.loaded(index)?;
    let texts: Vec<&str> = ask.texts.iter().map(String::as_str).collect();
    let options = TranslateOptions { from: ask.from.clone(), to: ask.to.clone(), ..ask.wanted.options() };
    let outlines = loaded.engine.outlines(&texts, &options)?;
    Ok((loaded, outlines))
}

/// The sentences of a request, some of them done.
struct Pending {
    passages: Vec<Passage>,
    /// The text and the place in it of each.
    places: Vec<(usize, usize)>,
    found: Vec<Option<Arc<Translation>>>,
    /// How many from the first on are done.
    done: usize,
}

impl Pending {
    fn new(outlines: &[Outline]) -> Self {
        let passages: Vec<Passage> = outlines.iter().flat_map(Outline::passages).collect();
        let places = outlines.iter().enumerate();
        let places = places.flat_map(|(text, own)| (0..own.n_passages()).map(move |place| (text, place)));
        Self { places: places.collect(), found: vec![None; passages.len()], done: 0, passages }
    }

    fn finish(&mut self, index: usize, found: Arc<Translation>, watcher: &mut impl FnMut(Finished)) {
        self.found[index] = Some(found);
        while let Some(Some(found)) = self.found.get(self.done) {
            let (text, sentence) = self.places[self.done];
            let source = self.passages[self.done].text.clone();
            watcher(Finished { text, sentence, source, translation: found.text().to_owned() });
            self.done += 1;
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.workshop.queue.close();
    }
}
