//! Events of a run. The library prints nothing; its caller shows these.

use std::path::PathBuf;

use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_text::batch::PaddingStats;
use polyhead_text::doctor::{CheckReport, LabelReport};

use crate::checkpoint::DamagedCheckpoint;
use crate::embeddings::FilledEmbeddings;
use crate::init::StepForecast;
use crate::memory::Forecast;
use crate::metrics_file::{TrainLine, ValidLine};
use crate::objective::ValidationSample;
use crate::task::Task;

/// Counts of corpus rows that are not used, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// Rows with an empty side.
    pub empty: usize,
    /// Rows with too many tokens on a side.
    pub too_long: usize,
    /// The first row that is too long: index of its corpus, line, and tokens.
    pub first_too_long: Option<(usize, u64, usize)>,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub enum Event {
    /// The device was opened.
    Opened {
        /// Name, as in train.device.
        device: String,
        /// Product name of a GPU; `None` for the CPU.
        model: Option<String>,
        /// Compute dtype.
        dtype: &'static str,
        /// If `auto` fell back to the CPU: the reason why no GPU can be used, and a hint.
        why: Option<(String, String)>,
    },
    /// A corpus was checked.
    Examined(Box<CheckReport>),
    /// The labels of the training and validation text were checked.
    Labels(Box<LabelReport>),
    /// Classes of images with a single training image.
    RareClasses(Vec<String>),
    /// A tokeniser is being trained.
    TrainingTokenizer,
    /// The corpora were read and encoded.
    Read {
        /// Pairs used, texts with a label, or rows of plain text.
        pairs: usize,
        /// Tokens of source and target.
        tokens: [usize; 2],
        /// The task of the run.
        task: Task,
        /// Number of outcomes that the loss is over: labels, if texts are classified.
        outcomes: usize,
        /// Rows not used.
        skipped: SkippedRows,
        /// Validation pairs, and how many of them are left out of the cross-entropy.
        valid: Option<(usize, usize)>,
    },
    /// The plan of the run.
    Planned(RunPlan),
    /// A new model has the weights of a model folder.
    Initialised {
        /// The folder.
        folder: PathBuf,
        /// Parts of the model that the folder lacks: they have random weights.
        fresh: Vec<String>,
        /// Parts of the folder that the model lacks.
        dropped: Vec<String>,
    },
    /// Embeddings of a new model were initialised from word vectors.
    Embedded {
        /// The file.
        path: PathBuf,
        /// Entries found, by embedding table.
        tables: Vec<FilledEmbeddings>,
    },
    /// A resumed run found its checkpoint, or none.
    Resumed {
        /// Step of the checkpoint; `None` if there is no run or no intact checkpoint, so the run starts anew.
        step: Option<u64>,
        /// Newer checkpoints that are damaged.
        damaged: Vec<DamagedCheckpoint>,
    },
    /// A step was done.
    Stepped(Progress),
    /// A training line was logged.
    Logged(TrainLine),
    /// Time estimate, reported once after the first steps.
    Timed {
        /// Seconds per epoch.
        epoch: f64,
        /// Seconds until the run reaches its limits, if it has any.
        rest: Option<f64>,
        /// Peak memory so far, in bytes.
        peak_memory: Option<u64>,
    },
    /// The model was validated.
    Validated {
        /// Scores.
        line: ValidLine,
        /// A validation row with the model's output.
        sample: Option<ValidationSample>,
        /// Validations since the best one.
        waiting: u64,
    },
    /// A validation is in progress.
    Validating {
        /// A model made of several checkpoints, or the finished model; `None` for the model of the current step.
        model: Option<String>,
        /// Rows translated or classified.
        done: usize,
        /// All rows.
        total: usize,
    },
    /// A checkpoint was written.
    Saved(PathBuf),
    /// The loss diverged; the run returned to a checkpoint and halved its learning rate.
    RolledBack {
        /// The step that was discarded.
        step: u64,
        /// The step of the checkpoint.
        to: u64,
        /// Description of the divergence.
        what: String,
        /// Factor of the learning rate from now on.
        factor: f64,
    },
    /// The finished model was written.
    Finished {
        /// Its folder.
        path: PathBuf,
        /// The checkpoints that it is made of.
        made_of: String,
        /// The models that were compared, with `checkpoint.final = "compare"`.
        comparison: Option<Comparison>,
        /// A checkpoint that scored better in validation, if the recipe names the finished model.
        better: Option<BetterCheckpoint>,
        /// Validation of the finished model.
        scores: Option<ValidLine>,
    },
}

/// Models compared on the validation set at the end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name of the metric, as in validation.metric.
    pub metric: &'static str,
    /// Beam size of the comparison.
    pub beam_size: usize,
    /// The models.
    pub models: Vec<ComparedModel>,
}

/// A model of a [`Comparison`].
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedModel {
    /// The checkpoints that it is made of.
    pub made_of: String,
    /// Value of the metric.
    pub score: f64,
    /// True for the model that is kept.
    pub is_chosen: bool,
}

/// A checkpoint with a better validation than the finished model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetterCheckpoint {
    /// Its step.
    pub step: u64,
    /// Name of the metric, as in validation.metric.
    pub metric: &'static str,
    /// The metric of the checkpoint, by the search of validation.
    pub score: f64,
    /// The metric of the finished model, by its own search.
    pub finished: f64,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// Parameters of the model.
    pub parameters: usize,
    /// Vocabulary sizes of source and target.
    pub vocab_sizes: [usize; 2],
    /// Batches of the first epoch.
    pub batches: usize,
    /// Steps of an epoch and of the run.
    pub steps: StepForecast,
    /// Layout of the checkpoints and of the finished model.
    pub layout: CheckpointLayout,
    /// Different batch shapes, if each is recorded as a CUDA graph.
    pub sizes: Option<usize>,
    /// Padding of the first epoch.
    pub padding: PaddingStats,
    /// Estimated memory.
    pub forecast: Forecast,
    /// Available memory in bytes, if known.
    pub available: Option<usize>,
    /// CPU threads.
    pub threads: usize,
    /// The run folder.
    pub out: PathBuf,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Epochs done, with the fraction of the current one.
    pub epoch: f64,
    /// The loss of this step.
    pub loss: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Target tokens per second since the last log line.
    pub tokens_per_s: f64,
    /// Fraction done by the nearest limit, 0 to 1; `None` without limits.
    pub done: Option<f64>,
    /// Fraction of this epoch's batch positions that is padding.
    pub padding: f64,
}

/// Reason for the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// train.max_steps was reached.
    Steps,
    /// train.max_epochs was reached.
    Epochs,
    /// train.max_minutes was reached.
    Time,
    /// validation.patience was exhausted.
    Patience,
    /// The run was asked to stop; it can be resumed.
    Stopped,
    /// `RunOptions::max_minutes` was reached; the run can be resumed.
    Paused,
}
