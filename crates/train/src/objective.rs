//! The training objective: a task with its data, loss and validation. Loop, resume, logs, averaging, EMA, R-Drop and CUDA
//! graphs are shared by all tasks and know only these traits.
//!
//! | task | data | loss | metrics |
//! |---|---|---|---|
//! | `translation` | sentence pairs | cross-entropy of target tokens | BLEU, chrF, errors, loss |
//! | `classification` | labelled texts | cross-entropy of labels | accuracy, F1, loss |
//! | `tagging` | words with tags | cross-entropy of the tags | F1 of spans, accuracy, loss |
//! | `language_model` | plain text | cross-entropy of the next token | loss; bits per character and byte |
//! | `masked_language_model` | plain text | cross-entropy of hidden tokens | accuracy, loss |
//! | `contrastive` | pairs of texts | cross-entropy of the partner in a batch | accuracy of the nearest text, loss |
//! | `pointing` | points with an order | cross-entropy of the next point | accuracy of whole answers, loss |
//! | `image_classification` | labelled images | cross-entropy of labels | accuracy, F1, loss |
//! | `captioning` | images with texts about them | cross-entropy of the next token | facts, BLEU, chrF, loss |
//! | `transcription` | sounds with their text | cross-entropy of the next token | WER, errors, loss |
//!
//! A new task is a folder that implements these traits, a variant of `Task` (`task.rs`; the compiler names the rest), and its
//! line in `run::train`. A new model family for a known task needs nothing here.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::{Device, Indices, Parameters, Tape, Tensor, Var};
use polyhead_text::batch::{BatchOptions, PaddingStats, Rounding};
use polyhead_text::metrics::LabelScore;

use crate::config::RunConfig;
use crate::event::SkippedRows;
use crate::preparation::Corpora;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// A training objective.
pub(crate) trait Objective: Sized {
    /// Batch that the loss is computed on.
    type Batch: Batch;
    /// Training data.
    type Data: Dataset<Batch = Self::Batch>;
    /// Validation data.
    type Valid: ValidationSet<Self>;

    /// The objective for a model.
    ///
    /// # Errors
    /// If the model is not of this kind.
    fn new(model: Model) -> Result<Self>;

    /// Reads the data, and completes the model config with what follows from it. Tasks on text have a vocabulary.
    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>>;

    /// The loss of a batch for the backward pass, and its cross-entropy, both scalars.
    fn loss(&self, pass: &Pass<'_>, batch: &Self::Batch, options: LossOptions) -> Result<(Var, Tensor)>;
}

/// The model config and data of a run.
#[derive(Debug)]
pub(crate) struct Prepared<O: Objective> {
    pub(crate) model: ModelConfig,
    pub(crate) data: O::Data,
    pub(crate) valid: Option<O::Valid>,
}

/// Options of the loss.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LossOptions {
    /// ε of label smoothing; default: 0.
    pub(crate) label_smoothing: f32,
    /// α of R-Drop; default: 0, one copy of each row.
    pub(crate) r_drop: f32,
    /// True if labels have the weights of their batch; default: false, so that losses of validation can be compared.
    pub(crate) is_weighted: bool,
}

/// Rows of the data as integer lists of fixed lengths, so that a GPU can record a step for each shape.
pub(crate) trait Batch: Sized + Debug {
    /// Number of tokens or labels that the loss is averaged over.
    fn weight(&self) -> usize;

    /// What the mean loss of the batch counts among those of the other batches of its step; default: its weight.
    fn share(&self) -> f64 {
        self.weight() as f64
    }

    /// All its integer lists.
    fn lists(&self) -> Vec<&Indices>;

    /// A batch of the same shape with other lists, which may be on a GPU.
    fn with(&self, lists: &[Indices]) -> Self;

    /// Rows, source length and target length.
    fn sizes(&self) -> [usize; 3];

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    fn to_device(&self, device: &Device) -> Result<Self> {
        let lists = self.lists().into_iter().map(|list| Ok(list.to_device(device)?));
        Ok(self.with(&lists.collect::<Result<Vec<Indices>>>()?))
    }
}

/// Training data: a sequence of epochs, each a pure function of text, config and epoch number.
pub(crate) trait Dataset: Sync {
    /// Batch type.
    type Batch: Batch;
    /// Epoch type.
    type Epoch: EpochBatches<Batch = Self::Batch> + Send;

    /// Number of rows used.
    fn len(&self) -> usize;

    /// Number of source tokens, and of target tokens or labels.
    fn tokens(&self) -> [usize; 2];

    /// Bytes of memory that the data take.
    fn bytes(&self) -> usize {
        self.tokens().iter().sum::<usize>() * size_of::<u32>()
    }

    /// Rows not used.
    fn skipped(&self) -> &SkippedRows;

    /// Names and texts of files that the model folder has because of the data.
    fn files(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// True if every epoch tokenises the text again (BPE-dropout, augmentation), which takes time.
    fn resamples_each_epoch(&self) -> bool;

    /// The batches of an epoch.
    ///
    /// # Errors
    /// If the longest row exceeds the batch size.
    fn epoch(&self, options: BatchOptions, number: u64) -> Result<Self::Epoch>;
}

/// The batches of one epoch, in order.
pub(crate) trait EpochBatches {
    /// Batch type.
    type Batch: Batch;

    /// Number of batches.
    fn len(&self) -> usize;

    /// The batch at `index`, with `copies` copies of all rows, one copy after the other. If rounding asks for more rows than
    /// there are, each copy is padded with empty rows.
    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<Self::Batch>;

    /// Number of text tokens, and of positions including padding and rounding.
    fn padding(&self, rounding: Rounding) -> PaddingStats;

    /// Rows and lengths of the batch that needs the most memory.
    fn largest(&self, rounding: Rounding) -> [usize; 3];

    /// Number of different batch shapes.
    fn n_sizes(&self, rounding: Rounding) -> usize;
}

/// Validation data.
pub(crate) trait ValidationSet<O> {
    /// Validates a model. `None` if `watch` returned false.
    fn validate(
        &self,
        candidate: Candidate<'_, O>,
        stage: Stage,
        watch: ValidationWatch<'_>,
    ) -> Result<Option<Validation>>;

    /// Number of validation rows, and of those left out of the cross-entropy.
    fn counts(&self) -> (usize, usize);
}

/// What a validation is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// A checkpoint of a run; the number of the validation selects the sample.
    Checkpoint(u64),
    /// The finished model as it will be used.
    Finished { beam_size: usize },
}

impl Stage {
    /// The row that is shown, of `count`; none of a finished model.
    pub(crate) fn sample_of(self, count: usize) -> Option<usize> {
        let Self::Checkpoint(number) = self else { return None };
        (number as usize * 7).checked_rem(count)
    }

    /// The beam of a search: that of the finished model, or the one for checkpoints.
    pub(crate) fn beam_size(self, of_checkpoints: usize) -> usize {
        if let Self::Finished { beam_size } = self { beam_size } else { of_checkpoints }
    }
}

/// Called between the chunks of a validation with the rows done and all rows; false ends it.
pub(crate) type ValidationWatch<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

/// A model to be validated.
#[derive(Debug)]
pub(crate) struct Candidate<'a, O> {
    pub(crate) objective: &'a O,
    /// Its parameters, in CPU memory.
    pub(crate) parameters: &'a Parameters,
    /// The same model as a folder.
    pub(crate) folder: &'a Path,
    /// Device to validate on.
    pub(crate) device: &'a Device,
}

impl<O> Clone for Candidate<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Candidate<'_, O> {}

/// Result of a validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Mean cross-entropy per target token or label.
    pub loss: f64,
    /// Scores by metric name; empty if only the loss was computed.
    pub scores: BTreeMap<String, f64>,
    /// Score that chooses the best checkpoint; higher is better.
    pub merit: f64,
    /// Scores of each label, or of each type of spans; empty for other tasks.
    pub labels: Vec<LabelScore>,
    /// A validation row with the model's output.
    pub sample: Option<ValidationSample>,
}

/// A row of the validation set with the model's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationSample {
    /// Input text.
    pub source: String,
    /// The reference: a translation, or a label.
    pub reference: String,
    /// Output of the model.
    pub output: String,
}

impl<O: Objective> Candidate<'_, O> {
    /// Mean cross-entropy per token or label, without label smoothing and dropout.
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

/// Rounding of batch shapes on a device.
pub(crate) fn rounding(device: &Device, max_len: usize) -> Rounding {
    if device.policy().wants_few_shapes { Rounding::Few { max_length: max_len } } else { Rounding::Exact }
}

/// Error for a metric that does not apply to a task.
pub(crate) fn unsupported_metric(name: &str, expected: &str) -> Error {
    Error::config(
        "validation.metric",
        format!("{name:?}, expected {expected} for this model"),
        "leave it out for the default",
    )
}
