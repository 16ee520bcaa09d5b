//! Encoders for many clients: vectors of texts and tokens, and class scores.
//!
//! 1. [`LoadedEncoder`] is an encoder in the model registry.
//! 2. [`QueuedText`] waits in the queue of the scheduler, beside sentences to translate; worker threads run batches of them.
//! 3. `call.rs` is a call of any of the APIs: it chooses the model, reads texts as tokens, reserves memory, and waits for the
//!    numbers. `inputs.rs` reads texts or ids of a request.
//! 4. `counters.rs` has the totals for metrics.
//!
//! What is computed of a text depends on nothing else in its batch, to the bit.

mod call;
mod counters;
mod inputs;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use std::panic::{AssertUnwindSafe, catch_unwind};

use polyhead_attention::Watch;
use polyhead_engine::classify::ClassScores;
use polyhead_engine::encoder::modules::Normalisation;
use polyhead_engine::encoder::{EncoderSummary, TextInput};
use polyhead_engine::{LoadOptions, LongTexts, TextEncoder};
use polyhead_models::encoder::EncoderHead;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Error, Result};

pub(crate) use call::{AboutEncoding, EncodedTexts, EncoderCall, EncoderError};
pub(crate) use counters::EncoderCounters;
pub use counters::EncoderGauges;
pub(crate) use inputs::{EncoderInput, TextsOrIds};

/// A loaded encoder; requests keep it alive while a reload replaces it.
#[derive(Debug)]
pub struct LoadedEncoder {
    /// The model.
    pub encoder: TextEncoder,
    /// Name by which clients choose it.
    pub name: String,
    /// Serial number, unique among all models ever loaded.
    pub serial: u64,
    /// Size of the vectors of texts.
    pub width: usize,
    /// What is known of it without its weights.
    pub summary: Arc<EncoderSummary>,
}

/// What is computed of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderOutput {
    /// Its vector.
    Vector(Normalisation),
    /// The states of its tokens.
    TokenStates,
    /// The scores of the classes.
    Scores(ClassScores),
}

/// What a call needs of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderUse {
    /// Vectors of texts.
    Vectors,
    /// States of tokens.
    TokenStates,
    /// Classes of texts.
    Classes,
    /// The score of a pair of texts.
    PairScores,
}

/// An encoder in the answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderEntry {
    /// Its name.
    pub name: String,
    /// True if it is in memory.
    pub is_loaded: bool,
    /// What is known of it without its weights.
    pub summary: Arc<EncoderSummary>,
}

impl EncoderUse {
    /// True if an encoder can be used so.
    pub(crate) fn fits(self, summary: &EncoderSummary) -> bool {
        match self {
            Self::Vectors => true,
            Self::TokenStates => summary.has_states,
            Self::Classes => summary.head == EncoderHead::Classes,
            Self::PairScores => summary.head == EncoderHead::Classes && summary.labels.len() == 1,
        }
    }

    /// True if an encoder is meant for it; where a call names no model, such a one comes first.
    pub(crate) fn is_meant(self, summary: &EncoderSummary) -> bool {
        let has_classes = summary.head == EncoderHead::Classes;
        match self {
            Self::Vectors | Self::TokenStates => {
                matches!(summary.head, EncoderHead::None | EncoderHead::MaskedLanguageModel)
            }
            Self::Classes => has_classes && summary.labels.len() > 1,
            Self::PairScores => has_classes && summary.labels.len() == 1,
        }
    }

    /// The kind of model in words.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Vectors => "an encoder",
            Self::TokenStates => "an encoder with states of tokens",
            Self::Classes => "a classifier of texts",
            Self::PairScores => "a reranker (a classifier of pairs with one label)",
        }
    }
}

impl LoadedEncoder {
    /// Loads a model, and computes a vector to see that it works.
    pub(crate) fn load((name, folder): (&str, &Path), options: &LoadOptions, serial: u64) -> Result<Self> {
        let encoder = TextEncoder::load(folder, options)?;
        let summary = Arc::new(EncoderSummary::of_folder(folder)?);
        let input = encoder.prepare("a", None, LongTexts::Truncate)?;
        let vector = encoder.vectors(&[&input], Normalisation::AsModel, None)?.pop().unwrap_or_default();
        Ok(Self { encoder, name: name.to_owned(), serial, width: vector.len(), summary })
    }

    /// Bytes of the names of all classes in an answer.
    pub(crate) fn label_bytes(&self) -> usize {
        self.summary.labels.iter().map(|label| 6 * label.len() + 64).sum()
    }

    /// Numbers in an output for a text of so many tokens.
    pub(crate) fn numbers(&self, output: EncoderOutput, n_tokens: usize) -> usize {
        match output {
            EncoderOutput::Vector(_) => self.width,
            EncoderOutput::TokenStates => n_tokens * self.summary.d_model,
            EncoderOutput::Scores(_) => self.summary.labels.len(),
        }
    }
}

/// A text that waits for an encoder.
#[derive(Debug)]
pub(crate) struct QueuedText {
    pub(crate) loaded: Arc<LoadedEncoder>,
    pub(crate) output: EncoderOutput,
    pub(crate) input: TextInput,
    /// Index among the texts of its request.
    pub(crate) index: usize,
    pub(crate) reply: UnboundedSender<TextResult>,
}

/// Index of a text within its request, and what was computed of it.
pub(crate) type TextResult = (usize, Result<Vec<f32>>);

impl QueuedText {
    /// Length in tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.input.encoding.len()
    }

    /// True if the request was cancelled.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// The outputs of a batch, whose texts share one model and one output. `between` is called between layers.
    pub(crate) fn run(batch: &[Self], between: &(dyn Fn() + Sync)) -> Result<Vec<Vec<f32>>> {
        let Some(Self { loaded, output, .. }) = batch.first() else { return Ok(Vec::new()) };
        let inputs: Vec<&TextInput> = batch.iter().map(|text| &text.input).collect();
        let encoder = &loaded.encoder;
        let is_wanted = || {
            between();
            !batch.iter().all(Self::is_abandoned)
        };
        let watch = Some(Watch(&is_wanted));
        let work = || match *output {
            EncoderOutput::Vector(normalisation) => encoder.vectors(&inputs, normalisation, watch),
            EncoderOutput::TokenStates => encoder.token_states(&inputs, watch),
            EncoderOutput::Scores(scores) => encoder.class_scores(&inputs, scores, watch),
        };
        let found = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic))??;
        if found.iter().flatten().any(|number| !number.is_finite()) {
            return Err(Error::Panicked { found: "NaN or infinite numbers".into() });
        }
        Ok(found)
    }

    /// Sends what was found.
    pub(crate) fn finish(self, found: Result<Vec<f32>>, counters: &EncoderCounters) {
        if found.is_ok() {
            counters.texts.fetch_add(1, Ordering::Relaxed);
            counters.tokens.fetch_add(self.tokens() as u64, Ordering::Relaxed);
        }
        // The client may have disconnected.
        let _ = self.reply.send((self.index, found));
    }
}
