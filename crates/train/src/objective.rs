//! What is learned: a task with its data, its loss and how a model is judged by it. Loop, resume, logs, averaging, EMA, R-Drop
//! and recorded steps on a GPU are shared by all tasks and know only these traits.
//!
//! | task | data | loss | judged by |
//! |---|---|---|---|
//! | `translation` | pairs of sentences | cross-entropy of target tokens | BLEU, chrF, errors, loss |
//! | `classification` | texts with a label | cross-entropy of labels | accuracy, loss |
//!
//! A new task is a folder with these traits, its variant of `Task` (`task.rs`), which the compiler follows, and its line in
//! `run::train`; a new family of models for a known task needs nothing here.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::{Device, Indices, Parameters, Tape, Tensor, Var};
use polyhead_text::batch::{BatchOptions, Padding, Rounding};

use crate::config::RunConfig;
use crate::event::Skipped;
use crate::preparation::Corpora;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// A task.
pub(crate) trait Objective: Sized {
    /// What a loss is taken of.
    type Batch: Batch;
    /// What is learned from.
    type Data: Dataset<Batch = Self::Batch>;
    /// What a model is judged on.
    type Valid: ValidationSet<Self>;

    /// The task for a model.
    ///
    /// # Errors
    /// If the model cannot do it.
    fn new(model: Model) -> Result<Self>;

    /// Reads the text, and says what model the config means with it.
    fn prepare(config: &RunConfig, corpora: &Corpora, vocabulary: &Vocabulary) -> Result<Prepared<Self>>;

    /// The loss of a batch to go back from, and its cross-entropy, one number each.
    fn loss(&self, pass: &Pass<'_>, batch: &Self::Batch, options: LossOptions) -> Result<(Var, Tensor)>;
}

/// What a task made of a config and its text.
#[derive(Debug)]
pub(crate) struct Prepared<O: Objective> {
    pub(crate) model: ModelConfig,
    pub(crate) data: O::Data,
    pub(crate) valid: Option<O::Valid>,
}

/// Choices of the loss.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LossOptions {
    /// ε: what the right outcome gives to all; default: 0.
    pub(crate) label_smoothing: f32,
    /// α of R-Drop; default: 0, so rows stand once in a batch.
    pub(crate) r_drop: f32,
}

/// Some rows of the data, as lists of numbers of fixed lengths, so that a GPU can record a step for each size.
pub(crate) trait Batch: Sized + Debug {
    /// Tokens or labels that the loss is a mean over.
    fn weight(&self) -> usize;

    /// All its lists of numbers.
    fn lists(&self) -> Vec<&Indices>;

    /// A batch of the same sizes with other lists, which may be on a GPU.
    fn with(&self, lists: &[Indices]) -> Self;

    /// Rows, and lengths of what is read and written.
    fn sizes(&self) -> [usize; 3];

    /// The same on `device`.
    ///
    /// # Errors
    /// If the device fails.
    fn to_device(&self, device: &Device) -> Result<Self> {
        let lists = self.lists().into_iter().map(|list| Ok(list.to_device(device)?));
        Ok(self.with(&lists.collect::<Result<Vec<Indices>>>()?))
    }
}

/// What is learned from: epoch after epoch, each a pure function of text, config and its number.
pub(crate) trait Dataset: Sync {
    /// Some rows of it.
    type Batch: Batch;
    /// One pass over it.
    type Epoch: EpochBatches<Batch = Self::Batch> + Send;

    /// Rows that are used.
    fn len(&self) -> usize;

    /// Tokens of what is read, and of what is written or said about it.
    fn tokens(&self) -> [usize; 2];

    /// What is not used.
    fn skipped(&self) -> &Skipped;

    /// True if every epoch cuts the text anew, which takes time.
    fn cuts_anew(&self) -> bool;

    /// The batches of an epoch.
    ///
    /// # Errors
    /// If the options leave no room for the longest row.
    fn epoch(&self, options: BatchOptions, number: u64) -> Result<Self::Epoch>;
}

/// The batches of one epoch, in order.
pub(crate) trait EpochBatches {
    /// One of them.
    type Batch: Batch;

    /// How many.
    fn len(&self) -> usize;

    /// The batch at a place; `copies` puts all rows in so many times, one copy after the other. Where rounding asks for more
    /// rows than there are, each copy is filled up with rows without tokens.
    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<Self::Batch>;

    /// Tokens that are text, and with what padding and rounding add.
    fn padding(&self, rounding: Rounding) -> Padding;

    /// Rows and lengths of the batch that needs the most memory.
    fn largest(&self, rounding: Rounding) -> [usize; 3];

    /// How many sizes the batches have.
    fn n_sizes(&self, rounding: Rounding) -> usize;
}

/// What a model is judged on.
pub(crate) trait ValidationSet<O> {
    /// Judges a model; `turn` chooses the sample. None where `is_stopping` became true.
    fn judge(
        &self,
        candidate: Candidate<'_, O>,
        turn: u64,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<Option<Validation>>;

    /// Judges a finished model as it will be used.
    fn judge_finished(&self, candidate: Candidate<'_, O>, beam_size: usize) -> Result<Validation>;

    /// Rows that are judged, and those of them whose cross-entropy does not count.
    fn counts(&self) -> (usize, usize);
}

/// A model to be judged.
#[derive(Debug)]
pub(crate) struct Candidate<'a, O> {
    pub(crate) objective: &'a O,
    /// Its values, in the memory of the CPU.
    pub(crate) parameters: &'a Parameters,
    /// The same model as it would be used.
    pub(crate) folder: &'a Path,
    /// Where it is judged.
    pub(crate) device: &'a Device,
}

impl<O> Clone for Candidate<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Candidate<'_, O> {}

/// What one validation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Mean cross-entropy of a target token or a label.
    pub loss: f64,
    /// Scores by the names that papers print; none where only the loss counts.
    pub scores: BTreeMap<String, f64>,
    /// The score that chooses; higher is better.
    pub merit: f64,
    /// A row and what the model made of it.
    pub sample: Option<Sample>,
}

/// A row of the validation set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What was read.
    pub source: String,
    /// The reference: a translation, or a label.
    pub reference: String,
    /// What the model made of it.
    pub output: String,
}

impl<O: Objective> Candidate<'_, O> {
    /// The mean cross-entropy of a token or label, without smoothing and dropout.
    pub(crate) fn cross_entropy(
        &self,
        batches: &impl EpochBatches<Batch = O::Batch>,
        max_len: usize,
    ) -> Result<f64> {
        let Self { objective, parameters, device, .. } = *self;
        let (capture, tape) = (Capture::off(), Tape::inference());
        let mut parameters = parameters.clone();
        parameters.freeze_all();
        let parameters = &parameters.to_device(device)?;
        let pass = Pass::new(&tape, parameters, &capture);
        let (mut sum, mut weight) = (0.0, 0);
        for index in 0..batches.len() {
            let Some(batch) = batches.batch(index, 1, rounding(device, max_len)) else { break };
            let moved = batch.to_device(device)?;
            let loss = device.scratch(|| -> Result<f32> {
                let (loss, _) = objective.loss(&pass, &moved, LossOptions::default())?;
                Ok(loss.value().to_host()?.data()[0])
            })?;
            sum += f64::from(loss) * batch.weight() as f64;
            weight += batch.weight();
        }
        Ok(sum / weight as f64)
    }
}

/// How the sizes of batches are rounded on a device.
pub(crate) fn rounding(device: &Device, max_len: usize) -> Rounding {
    if device.policy().wants_few_shapes { Rounding::Few { max_length: max_len } } else { Rounding::Exact }
}

/// Why a metric cannot judge a task.
pub(crate) fn foreign_metric(name: &str, expected: &str) -> Error {
    Error::config(
        "validation.metric",
        format!("{name:?}, expected {expected} for this model"),
        "leave it out for the usual one",
    )
}
