//! The scheduler: splits texts into sentences, answers from the cache or queues them for batched translation, and joins the
//! translated sentences into texts. Texts for encoders (`encoder/`), images (`images/`) and sounds (`speech/`) wait in the same queue.
//!
//! Every translation equals that of `polyhead translate`: the translation of a sentence depends on nothing else in its batch.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polyhead_engine::image::ImageSummary;
use polyhead_engine::speech::SpeechSummary;
use polyhead_translate::{LoadOptions, RoutedSentence, TextPlan, TranslateOptions, Translation};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::cache::Cache;
use super::encoder::{EncoderCounters, EncoderEntry, EncoderGauges};
use super::generation::{GenerationCounters, GenerationGauges, GenerationPool, LoadedGenerator};
use super::images::ImageEntry;
use super::media_counters::{MediaCounters, MediaGauges};
use super::memory_plan::MemoryPlan;
use super::model_registry::{
    LanguageAnswer, LanguageModelEntry, LoadedModel, ModelEntry, ModelFolder, ModelRegistry,
};
use super::queue::{Queue, QueueFull, QueueOptions, Waiting};
use super::request::TranslationRequest;
use super::speech::SpeechEntry;
use super::work::QueuedWork;
pub use super::worker_pool::RequestOptions;
use super::worker_pool::{CacheKey, Counters, QueuedSentence, SentenceResult, SpeedMeter, WorkerPool, work};
use crate::blocking::blocking;
use crate::front::budget::MemoryBudget;
use crate::front::process::resident_bytes;
pub use crate::front::rate::Client;
use crate::{Error, Result};

/// Options of a [`Scheduler`].
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// The models; the first is loaded at the start, the others on demand; default: none.
    pub models: Vec<ModelFolder>,
    /// Options for loading models; default: [`LoadOptions::default`].
    pub load: LoadOptions,
    /// Worker threads; default: 1.
    pub threads: usize,
    /// Maximum number of sentences in the queue; default: 4096.
    pub waiting: usize,
    /// Maximum number of tokens in a batch; default: 256.
    pub batch_tokens: usize,
    /// Time that a sentence waits for others to share its batch while a thread is free; default: 0.2 ms.
    pub window: Duration,
    /// Size of the translation cache in bytes; default: 64 MiB.
    pub cache_bytes: usize,
    /// Memory limit of the process in bytes; default: none.
    pub max_memory: Option<u64>,
}

impl Default for SchedulerOptions {
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

/// Part of the time to a deadline by which an estimate may exceed it: estimates are rough.
const MARGIN: f64 = 1.25;
/// Texts of at most so many seconds of work are never refused for what others ask.
const LIGHT_SECONDS: f64 = 1.0;
/// Seconds of work after which the speed is known.
const MEASURED_SECONDS: f64 = 1.0;
/// Work per second before it is known.
const FIRST_SPEED: f64 = 5000.0;

/// A part of a request that is queued at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slice {
    /// The beginning.
    First,
    /// What follows.
    Later,
}

/// The translations of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslationResult {
    /// Name of the model that translated.
    pub model: String,
    /// One translation for each text.
    pub translations: Vec<Translation>,
}

/// A translated sentence; all sentences before it are translated, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSentence {
    /// Index of its text.
    pub text: usize,
    /// Its index within the text.
    pub sentence: usize,
    /// The source sentence.
    pub source: String,
    /// Its translation.
    pub translation: String,
}

/// Model registry, queue, cache and worker threads of a server.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) registry: Arc<ModelRegistry>,
    generation: Arc<GenerationPool>,
    pub(super) pool: Arc<WorkerPool>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    plan: MemoryPlan,
    /// Memory of all that waits for a client.
    memory: Arc<MemoryBudget>,
    pub(super) threads: usize,
}

impl Scheduler {
    /// Loads the first model and starts the workers.
    ///
    /// # Errors
    /// If a folder holds no model, a model exceeds the memory limit, or a thread cannot be started.
    pub fn open(options: SchedulerOptions) -> Result<Self> {
        let SchedulerOptions { waiting, batch_tokens, window, threads, max_memory, .. } = options;
        let threads = threads.max(1);
        let generation = Arc::new(GenerationPool {
            threads,
            waiting,
            cache_bytes: AtomicUsize::new(0),
            counters: Arc::default(),
        });
        let registry = ModelRegistry::open(&options.models, options.load, max_memory, generation.clone())?;
        let registry = Arc::new(registry);
        let queue = Queue::new(QueueOptions { waiting, batch_tokens, window, workers: threads });
        let n_generators = registry.language_models().len();
        let kinds = usize::from(registry.translates()) + usize::from(n_generators > 0);
        let plan = MemoryPlan::new(max_memory, options.cache_bytes.saturating_mul(kinds), registry.bytes());
        let has_media = !registry.speech_models().is_empty() || !registry.image_models().is_empty();
        let plan = if n_generators > 0 || has_media { plan.with_free_memory() } else { plan };
        let cache_bytes = plan.cache / kinds.max(1);
        generation.cache_bytes.store(cache_bytes / n_generators.max(1), Ordering::Relaxed);
        let cache = Mutex::new(Cache::new(cache_bytes));
        let memory = Arc::new(MemoryBudget::new(plan.waiting(registry.bytes())));
        let pool = Arc::new(WorkerPool {
            queue,
            cache,
            counters: Counters::default(),
            encoder_counters: EncoderCounters::default(),
            image_counters: MediaCounters::default(),
            speech_counters: MediaCounters::default(),
            busy: AtomicUsize::new(0),
        });
        let mut workers = Vec::new();
        for number in 0..threads {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let threads = threads.map_err(|error| Error::Server(std::io::Error::other(error)))?;
            let own = pool.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            workers.push(thread.spawn(move || own.work(&threads)).map_err(Error::Server)?);
        }
        Ok(Self { registry, generation, pool, workers: Mutex::new(workers), plan, memory, threads })
    }

    /// Translates texts.
    ///
    /// # Errors
    /// If the request is invalid, the queue is full, or the deadline has passed.
    pub async fn translate(&self, request: TranslationRequest<String>) -> Result<TranslationResult> {
        self.translate_watched(request, |_| {}).await
    }

    /// Translates texts, and calls `on_sentence` for every sentence as soon as it and all before it are translated.
    ///
    /// # Errors
    /// Those of [`Scheduler::translate`].
    pub async fn translate_watched(
        &self,
        request: TranslationRequest<String>,
        on_sentence: impl FnMut(FinishedSentence) + Send,
    ) -> Result<TranslationResult> {
        let deadline = tokio::time::Instant::from_std(request.deadline);
        let late = || self.busy("the deadline passed before the translation was finished".into());
        // A timer is only polled when the future first waits.
        if request.deadline <= Instant::now() {
            return Err(late());
        }
        let answer = tokio::time::timeout_at(deadline, self.answer(request, on_sentence)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(
        &self,
        request: TranslationRequest<String>,
        mut on_sentence: impl FnMut(FinishedSentence) + Send,
    ) -> Result<TranslationResult> {
        self.check_memory()?;
        let (client, options, deadline) = (request.client.clone(), request.options.clone(), request.deadline);
        let registry = self.registry.clone();
        let (loaded, outlines) = blocking(move || split(&registry, &request)).await?;
        self.plan_memory();
        let mut pending = PendingSentences::new(&outlines);
        self.check_deadline(&pending.passages, &options, &loaded, deadline)?;
        let (reply, mut replies) = mpsc::unbounded_channel();
        // A long text is queued in slices, so that other clients find room beside it.
        let slice = (self.pool.queue.capacity() / 4).max(1);
        for start in (0..pending.passages.len()).step_by(slice) {
            let end = pending.passages.len().min(start + slice);
            let sentences = self.uncached(&options, &loaded, &pending.passages, start..end, &reply);
            self.queue(&client, sentences, if start == 0 { Slice::First } else { Slice::Later }).await?;
            while pending.done < end {
                // This function holds a sender, so the channel stays open.
                let Some((index, found)) = replies.recv().await else { break };
                pending.finish(index, found?, &mut on_sentence);
            }
        }
        let found: Vec<Arc<Translation>> = pending.found.into_iter().flatten().collect();
        let mut rest = found.as_slice();
        let translations = outlines.iter().map(|outline| {
            let (own, others) = rest.split_at(outline.n_sentences());
            rest = others;
            outline.join(own)
        });
        Ok(TranslationResult { model: loaded.name.clone(), translations: translations.collect() })
    }

    /// The passages that are not in the cache; cached ones are answered at once.
    fn uncached(
        &self,
        options: &RequestOptions,
        loaded: &Arc<LoadedModel>,
        passages: &[RoutedSentence],
        range: Range<usize>,
        reply: &UnboundedSender<SentenceResult>,
    ) -> Vec<QueuedWork> {
        let mut sentences = Vec::new();
        for index in range {
            let key = CacheKey {
                serial: loaded.serial,
                options: options.clone(),
                passage: passages[index].clone(),
            };
            if let Some(found) = self.cache().get(&key) {
                self.pool.counters.cache_hits.fetch_add(1, Ordering::Relaxed);
                // The caller holds the receiver.
                let _ = reply.send((index, Ok(found)));
            } else {
                let work = work(&key.passage, &key.options, loaded);
                let (loaded, reply) = (loaded.clone(), reply.clone());
                sentences.push(QueuedWork::Sentence(QueuedSentence { key, loaded, index, reply, work }));
            }
        }
        sentences
    }

    /// Queues a part of a request. The first is refused if there is no room; later ones wait for it, until the deadline.
    pub(super) async fn queue(
        &self,
        client: &Client,
        mut items: Vec<QueuedWork>,
        slice: Slice,
    ) -> Result<()> {
        while let Err(full) = self.pool.queue.push(client, &mut items) {
            if slice == Slice::First {
                return Err(self.refused(&full));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn refused(&self, full: &QueueFull) -> Error {
        match full {
            QueueFull::Total(waiting) => self.busy(format!("{waiting} sentences or texts are waiting")),
            QueueFull::Client(own) => Error::TooManyRequests {
                found: format!("{own} sentences or texts of this client are waiting"),
                retry_after: self.wait(),
            },
        }
    }

    /// Refuses a text that cannot be translated by its deadline, before anything is done for it.
    fn check_deadline(
        &self,
        passages: &[RoutedSentence],
        options: &RequestOptions,
        loaded: &LoadedModel,
        deadline: Instant,
    ) -> Result<()> {
        let all = passages.iter().map(|passage| work(passage, options, loaded));
        let longest = all.clone().max().unwrap_or(0);
        self.check_work([all.sum(), longest], &self.pool.counters.meter, deadline)
    }

    /// Refuses work, given in total and of the longest item, that cannot be done by its deadline.
    pub(super) fn check_work(
        &self,
        [total, longest]: [usize; 2],
        meter: &SpeedMeter,
        deadline: Instant,
    ) -> Result<()> {
        let Some(speed) = self.speed(&[meter]) else { return Ok(()) };
        let longest = longest as f64 * self.threads as f64;
        let alone = (total as f64).max(longest) / speed;
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        if alone > MARGIN * left {
            return Err(Error::TooLong { seconds: alone.ceil() as u64, deadline: left.round() as u64 });
        }
        // Clients take turns, so with n others it takes at most n + 1 times as long.
        let Waiting { clients, work: waiting, .. } = self.pool.queue.waiting();
        let others = self.measured_speed().unwrap_or(speed);
        let beside = (alone * (clients + 1) as f64).min(alone + waiting as f64 / others);
        if alone > LIGHT_SECONDS && beside > MARGIN * left {
            let found = format!(
                "beside {clients} other clients this takes about {beside:.0} s, and its deadline is in {left:.0} s"
            );
            return Err(self.busy(found));
        }
        Ok(())
    }

    /// Estimated seconds until the queue is empty, 1 to 60.
    fn wait(&self) -> u64 {
        let work = self.pool.queue.waiting().work as f64;
        ((work / self.measured_speed().unwrap_or(FIRST_SPEED)).ceil() as u64).clamp(1, 60)
    }

    /// An error that says when to try again.
    pub(super) fn busy(&self, found: String) -> Error {
        Error::Busy { found, retry_after: self.wait() }
    }

    /// Work per second of all threads together, as the queue estimates work; none before there was enough of it.
    fn measured_speed(&self) -> Option<f64> {
        let WorkerPool { counters, encoder_counters, image_counters, speech_counters, .. } = &*self.pool;
        self.speed(&[&counters.meter, &encoder_counters.meter, &image_counters.meter, &speech_counters.meter])
    }

    fn speed(&self, meters: &[&SpeedMeter]) -> Option<f64> {
        let sum = |(a, b): (f64, f64), (c, d)| (a + c, b + d);
        let (work, seconds) = meters.iter().map(|meter| meter.total()).fold((0.0, 0.0), sum);
        (seconds >= MEASURED_SECONDS && work > 0.0).then(|| work / seconds * self.threads as f64)
    }

    /// Memory of all that waits for a client.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Frees memory if the process exceeds its limit; an error if that is not enough.
    pub(super) fn check_memory(&self) -> Result<()> {
        let Some(limit) = self.plan.limit else { return Ok(()) };
        let is_over = || resident_bytes().is_some_and(|bytes| bytes > limit);
        if is_over() {
            self.cache().clear();
            polyhead_tensor::pool::clear();
            while is_over() && self.registry.unload_one() {}
            if is_over() {
                return Err(self.busy(format!("memory is at its limit of {} MiB", limit >> 20)));
            }
        }
        Ok(())
    }

    /// All source languages, with their target languages.
    pub fn languages(&self) -> Vec<LanguageAnswer> {
        self.registry.languages()
    }

    /// All models that translate.
    pub fn models(&self) -> Vec<ModelEntry> {
        self.registry.models()
    }

    /// All language models.
    pub fn language_models(&self) -> Vec<LanguageModelEntry> {
        self.registry.language_models()
    }

    /// All encoders.
    pub fn encoders(&self) -> Vec<EncoderEntry> {
        self.registry.encoders()
    }

    /// All speech recognisers.
    pub fn speech_models(&self) -> Vec<SpeechEntry> {
        self.registry.speech_models()
    }

    /// All image classifiers.
    pub fn image_models(&self) -> Vec<ImageEntry> {
        self.registry.image_models()
    }

    /// What is known of a speech recogniser without its weights, by its name, default: the first.
    ///
    /// # Errors
    /// 404 if no model has this name.
    pub(crate) fn speech_summary(&self, model: Option<&str>) -> Result<Arc<SpeechSummary>> {
        self.registry.speech_summary(model)
    }

    /// The same of an image classifier.
    ///
    /// # Errors
    /// 404 if no model has this name.
    pub(crate) fn image_summary(&self, model: Option<&str>) -> Result<Arc<ImageSummary>> {
        self.registry.image_summary(model)
    }

    /// Totals of transcriptions.
    pub fn speech_gauges(&self) -> MediaGauges {
        self.pool.speech_counters.gauges()
    }

    /// Totals of image classification.
    pub fn image_gauges(&self) -> MediaGauges {
        self.pool.image_counters.gauges()
    }

    /// Totals of encoders.
    pub fn encoder_gauges(&self) -> EncoderGauges {
        self.pool.encoder_counters.gauges()
    }

    /// True if there is a model that translates.
    pub fn translates(&self) -> bool {
        self.registry.translates()
    }

    /// A model that translates by its name, default: the first; loads it if necessary, which may take a while.
    ///
    /// # Errors
    /// If no model has this name, or it cannot be loaded.
    pub fn loaded(&self, model: Option<&str>) -> Result<Arc<LoadedModel>> {
        let first = model.is_none() && self.translates();
        let index = if first { 0 } else { self.registry.choose(model, None, None, "")? };
        self.registry.loaded(index)
    }

    /// A language model by its name, default: the first; loads it if necessary, which may take a while.
    ///
    /// # Errors
    /// If no model has this name, or it cannot be loaded.
    pub fn generator(&self, model: Option<&str>) -> Result<Arc<LoadedGenerator>> {
        let found = self.registry.generator(model)?;
        self.plan_memory();
        Ok(found)
    }

    /// Gives what waits the memory that the loaded models leave.
    pub(super) fn plan_memory(&self) {
        self.memory.set_limit(self.plan.waiting(self.registry.bytes()));
    }

    /// Running and waiting texts and totals of text generation.
    pub fn generation_gauges(&self) -> GenerationGauges {
        self.generation.counters.gauges()
    }

    /// The counters of text generation.
    pub(super) fn generation(&self) -> &Arc<GenerationCounters> {
        &self.generation.counters
    }

    /// Reloads all models without dropping a request; returns the number of loaded ones.
    ///
    /// # Errors
    /// If one cannot be read; then none is replaced.
    pub fn reload(&self) -> Result<usize> {
        let count = self.registry.reload()?;
        // Entries of the old models would never be found again.
        self.cache().clear();
        Ok(count)
    }

    /// Queue length, busy workers and totals, for metrics.
    pub fn gauges(&self) -> SchedulerGauges {
        let Counters { batches, sentences, source_tokens, target_tokens, cache_hits, .. } =
            &self.pool.counters;
        let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        SchedulerGauges {
            waiting: self.pool.queue.waiting().items,
            busy: self.pool.busy.load(Ordering::Relaxed),
            batches: load(batches),
            sentences: load(sentences),
            source_tokens: load(source_tokens),
            target_tokens: load(target_tokens),
            cache_hits: load(cache_hits),
            cache_bytes: self.cache().bytes(),
        }
    }

    /// Refuses new sentences and waits until all queued ones are translated.
    pub fn close(&self) {
        self.pool.queue.close();
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // A worker that panicked has ended, too.
            let _ = worker.join();
        }
        self.registry.close();
    }

    fn cache(&self) -> MutexGuard<'_, Cache<CacheKey, Translation>> {
        self.pool.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queue length, busy workers and totals of a [`Scheduler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerGauges {
    /// Sentences, and texts for encoders, in the queue.
    pub waiting: usize,
    /// Worker threads that have a batch.
    pub busy: usize,
    /// Batches translated.
    pub batches: u64,
    /// Sentences translated, cache hits excluded.
    pub sentences: u64,
    /// Source tokens read.
    pub source_tokens: u64,
    /// Target tokens written.
    pub target_tokens: u64,
    /// Sentences answered from the cache.
    pub cache_hits: u64,
    /// Bytes in the cache.
    pub cache_bytes: usize,
}

/// Chooses the model of a request and splits its texts into sentences.
fn split(
    registry: &ModelRegistry,
    request: &TranslationRequest<String>,
) -> Result<(Arc<LoadedModel>, Vec<TextPlan>)> {
    let TranslationRequest { inputs, from, to, model, options, .. } = request;
    let sample = inputs.first().map_or("", String::as_str);
    let index = registry.choose(model.as_deref(), from.as_deref(), to.as_deref(), sample)?;
    let loaded = registry.loaded(index)?;
    let texts: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let options = TranslateOptions { from: from.clone(), to: to.clone(), ..options.translate_options() };
    let outlines = loaded.engine.plan_texts(&texts, &options)?;
    Ok((loaded, outlines))
}

/// The sentences of a request, some of them translated.
struct PendingSentences {
    passages: Vec<RoutedSentence>,
    /// Index of the text, and index within it, of each sentence.
    positions: Vec<(usize, usize)>,
    found: Vec<Option<Arc<Translation>>>,
    /// Length of the translated prefix.
    done: usize,
}

impl PendingSentences {
    fn new(outlines: &[TextPlan]) -> Self {
        let passages: Vec<RoutedSentence> = outlines.iter().flat_map(TextPlan::sentences).collect();
        let positions = outlines.iter().enumerate();
        let positions = positions
            .flat_map(|(text, own)| (0..own.n_sentences()).map(move |sentence| (text, sentence)))
            .collect();
        Self { positions, found: vec![None; passages.len()], done: 0, passages }
    }

    fn finish(
        &mut self,
        index: usize,
        found: Arc<Translation>,
        on_sentence: &mut impl FnMut(FinishedSentence),
    ) {
        self.found[index] = Some(found);
        while let Some(Some(found)) = self.found.get(self.done) {
            let (text, sentence) = self.positions[self.done];
            let source = self.passages[self.done].text.clone();
            on_sentence(FinishedSentence { text, sentence, source, translation: found.text().to_owned() });
            self.done += 1;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.pool.queue.close();
    }
}
