//! Text generation for many clients: each language model has one running batch, which texts join between steps and leave when
//! they are done (continuous batching).
//!
//! 1. [`LoadedGenerator`] is a language model with its [`runner`](Runner), a thread that steps the batch.
//! 2. `running.rs` is the batch with the texts of its rows, `turns.rs` decides whose text is next and who makes room.
//! 3. `counters.rs` has the totals for metrics.
//!
//! A text depends on its prompt, its options and its number alone, so neither its neighbours nor pauses can change it.

mod counters;
mod runner;
mod running;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use polyhead_engine::generate::{GenerateOptions, GeneratedToken};
use polyhead_engine::{Generator, LoadOptions};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::queue::QueueFull;
use crate::front::rate::Client;
use crate::{Error, Result};
pub(crate) use counters::GenerationCounters;
pub use counters::GenerationGauges;
use runner::Runner;

/// Bytes of a generated token and its text in an answer.
const ANSWER_BYTES: usize = 512;
/// Bytes of each alternative of a token in an answer.
const ALTERNATIVE_BYTES: usize = 256;

/// What the runners of all language models share.
#[derive(Debug)]
pub(crate) struct GenerationPool {
    /// Threads of each runner.
    pub(crate) threads: usize,
    /// Texts that may wait for a model.
    pub(crate) waiting: usize,
    /// Bytes of the states of prompts that each model keeps for later ones.
    pub(crate) cache_bytes: AtomicUsize,
    pub(crate) counters: Arc<GenerationCounters>,
}

/// A loaded language model; requests keep it alive while a reload replaces it.
#[derive(Debug)]
pub struct LoadedGenerator {
    /// The model.
    pub generator: Arc<Generator>,
    /// Name by which clients choose it.
    pub name: String,
    runner: Runner,
}

/// Texts to generate.
#[derive(Debug, Clone)]
pub(crate) struct GenerationRequest {
    pub(crate) client: Client,
    /// The tokens of each prompt.
    pub(crate) prompts: Vec<Arc<[u32]>>,
    /// Texts for each prompt.
    pub(crate) samples: usize,
    pub(crate) options: Arc<GenerateOptions>,
}

/// A text that is to be generated.
#[derive(Debug, Clone)]
pub(crate) struct TextJob {
    prompt: Arc<[u32]>,
    options: Arc<GenerateOptions>,
    /// Its number among the texts of its prompt.
    sample: u64,
    /// Its number among the texts of its request.
    choice: usize,
    reply: UnboundedSender<Update>,
    began: Instant,
}

/// The next token of a text, or the error that ends it.
#[derive(Debug)]
pub(crate) struct Update {
    /// Number of the text: prompt · samples + sample.
    pub(crate) choice: usize,
    pub(crate) found: Result<GeneratedToken>,
}

impl TextJob {
    /// True if its client has gone, or its deadline has passed.
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn send(&self, found: Result<GeneratedToken>) {
        // The client may have disconnected.
        let _ = self.reply.send(Update { choice: self.choice, found });
    }
}

impl GenerationRequest {
    /// Number of its texts.
    pub(crate) fn n_texts(&self) -> usize {
        self.prompts.len() * self.samples
    }

    /// The most bytes that its texts and their answers take.
    pub(crate) fn bytes(&self, generator: &Generator) -> usize {
        let token = ANSWER_BYTES + ALTERNATIVE_BYTES * self.options.alternatives;
        let text = |prompt: &Arc<[u32]>| {
            let new = generator.max_new_tokens(prompt.len(), &self.options);
            generator.sequence_bytes(prompt.len() + new).saturating_add(new.saturating_mul(token))
        };
        let all = self.prompts.iter().map(text).fold(0_usize, usize::saturating_add);
        all.saturating_mul(self.samples)
    }
}

impl LoadedGenerator {
    /// Loads a model and starts its runner.
    pub(crate) fn load(
        (name, folder): (&str, &Path),
        options: &LoadOptions,
        pool: &Arc<GenerationPool>,
    ) -> Result<Self> {
        let generator = Arc::new(Generator::load(folder, options)?);
        let runner = Runner::start(generator.clone(), name, pool)?;
        Ok(Self { generator, name: name.to_owned(), runner })
    }

    /// Queues the texts of a request; those whose receiver is dropped leave the batch.
    ///
    /// # Errors
    /// If the queue is full.
    pub(crate) fn submit(
        &self,
        request: &GenerationRequest,
    ) -> std::result::Result<UnboundedReceiver<Update>, QueueFull> {
        let (reply, updates) = mpsc::unbounded_channel();
        let began = Instant::now();
        let job = |choice: usize| TextJob {
            prompt: request.prompts[choice / request.samples].clone(),
            options: request.options.clone(),
            sample: (choice % request.samples) as u64,
            choice,
            reply: reply.clone(),
            began,
        };
        self.runner.push(&request.client, (0..request.n_texts()).map(job).collect())?;
        Ok(updates)
    }

    /// Ends its runner, once all texts are finished or abandoned, and frees its memory.
    pub(crate) fn close(self) {
        self.runner.close();
    }
}

impl GenerationPool {
    /// Tokens whose states a model keeps for later prompts.
    fn cached_tokens(&self, generator: &Generator) -> usize {
        const TOKENS: usize = 1024;
        let bytes = generator.model().state_bytes(TOKENS) / TOKENS;
        self.cache_bytes.load(Ordering::Relaxed) / bytes.max(1)
    }
}

impl From<QueueFull> for Error {
    fn from(full: QueueFull) -> Self {
        match full {
            QueueFull::Total(waiting) => {
                Self::Busy { found: format!("{waiting} texts are waiting"), retry_after: 1 }
            }
            QueueFull::Client(own) => Self::TooManyRequests {
                found: format!("{own} texts of this client are waiting"),
                retry_after: 1,
            },
        }
    }
}
