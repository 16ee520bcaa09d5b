//! What a run tells while it works. The library prints nothing; its caller shows these.

use std::path::PathBuf;

use polyhead_text::batch::Padding;
use polyhead_text::doctor::Report;

use crate::checkpoint::Damaged;
use crate::embeddings::Filled;
use crate::memory::Forecast;
use crate::metrics_file::{TrainLine, ValidLine};
use crate::objective::Sample;

/// Rows of a corpus that no batch holds, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Rows with a side without text.
    pub empty: usize,
    /// Rows with a side of too many tokens.
    pub too_long: usize,
    /// The first of the latter: its corpus, its line and its tokens.
    pub first_too_long: Option<(usize, u64, usize)>,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The device that the run is on.
    Opened {
        /// Its name, as in train.device.
        device: String,
        /// What its maker calls it; none for the processor.
        model: Option<String>,
        /// Numbers that it computes with.
        dtype: &'static str,
        /// Why it is the processor where a card would have been taken, and what can be done about it.
        why: Option<(String, String)>,
    },
    /// A corpus was looked through.
    Examined(Box<Report>),
    /// A tokeniser is being trained.
    TrainingTokenizer,
    /// Text was read and encoded.
    Read {
        /// Pairs that are used, or texts with a label.
        pairs: usize,
        /// Tokens of source and target.
        tokens: [usize; 2],
        /// Labels, where texts are classified.
        labels: Option<usize>,
        /// What is not used.
        skipped: Skipped,
        /// Pairs to validate on, and those of them whose cross-entropy does not count.
        valid: Option<(usize, usize)>,
    },
    /// What the run is going to be.
    Planned(Plan),
    /// Embeddings of a new model start from a file of vectors.
    Embedded {
        /// The file.
        path: PathBuf,
        /// What was found in it for each table.
        tables: Vec<Filled>,
    },
    /// It was to go on from a checkpoint.
    Resumed {
        /// The step after which it goes on; none where it begins, for want of a run or of a whole checkpoint.
        step: Option<u64>,
        /// Newer checkpoints that could not be used.
        damaged: Vec<Damaged>,
    },
    /// A step was made.
    Stepped(Progress),
    /// A line of the log.
    Logged(TrainLine),
    /// How long an epoch will take, told once after the first steps.
    Timed {
        /// Seconds of an epoch.
        epoch: f64,
        /// Seconds until the run ends by its limits, where they are known.
        rest: Option<f64>,
        /// The most memory held so far.
        peak_memory: Option<u64>,
    },
    /// The model was judged.
    Validated {
        /// What was found.
        line: ValidLine,
        /// A row and what the model made of it.
        sample: Option<Sample>,
        /// Validations since the best one.
        waiting: u64,
    },
    /// A checkpoint was written.
    Saved(PathBuf),
    /// The loss exploded; the run went back to a checkpoint and halved its rate.
    WentBack {
        /// The step that was not made.
        step: u64,
        /// The step it goes on from.
        to: u64,
        /// What was seen.
        what: String,
        /// What the learning rate is now multiplied by.
        factor: f64,
    },
    /// The finished model was written.
    Finished {
        /// Its folder.
        path: PathBuf,
        /// What it is made of.
        made_of: String,
        /// How it was judged.
        scores: Option<ValidLine>,
    },
}

/// What a run is going to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Numbers of the model.
    pub parameters: usize,
    /// Entries of source and target.
    pub vocab_sizes: [usize; 2],
    /// Batches of the first epoch.
    pub batches: usize,
    /// Sizes that they have, where a card records each.
    pub sizes: Option<usize>,
    /// Its padding.
    pub padding: Padding,
    /// Memory that will be needed.
    pub forecast: Forecast,
    /// Memory that there is.
    pub available: Option<usize>,
    /// Threads at work.
    pub threads: usize,
    /// The run folder.
    pub out: PathBuf,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps made.
    pub step: u64,
    /// Epochs made, the present one in parts.
    pub epoch: f64,
    /// The loss of this step.
    pub loss: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Target tokens a second since the last line of the log.
    pub tokens_per_s: f64,
    /// Share of the way to the nearest limit, where there is one, 0 to 1.
    pub done: Option<f64>,
    /// Share of the batch's positions that are padding in this epoch.
    pub padding: f64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It reached train.max_steps.
    Steps,
    /// It reached train.max_epochs.
    Epochs,
    /// Its time was up.
    Time,
    /// No validation was better for so long.
    Patience,
    /// It was asked to stop, and can be resumed.
    Stopped,
    /// The minutes of this sitting are over, and it can be resumed.
    Paused,
}
