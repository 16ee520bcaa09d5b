//! The sections about learning, each field with its meaning and default.

use polyhead_tensor::Math;
use serde::{Deserialize, Serialize};

/// `[optimizer]`: Adam with decoupled weight decay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
    /// β₁; 0.9.
    pub beta1: f32,
    /// β₂; 0.98, as in the Transformer paper.
    pub beta2: f32,
    /// ε; 1e-9, as there.
    pub epsilon: f32,
    /// λ of decoupled weight decay; 0.
    pub weight_decay: f32,
    /// Gradients longer than this are scaled down to it; 1. 0 for no limit.
    pub clip_norm: f32,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.98, epsilon: 1e-9, weight_decay: 0.0, clip_norm: 1.0 }
    }
}

/// What happens when the loss explodes or is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divergence {
    /// The run ends; the last checkpoint is good.
    #[default]
    Stop,
    /// The run goes back to the last checkpoint and on with half the learning rate, five times at most.
    Halve,
}

/// Numbers that products are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// The fastest that trains well: bf16 on a card, f32 on the processor.
    #[default]
    Auto,
    /// f32 throughout.
    F32,
    /// f32 whose products round their factors; cards only.
    Tf32,
    /// Activations and factors of products in bf16, weights and sums in f32; cards only.
    Bf16,
}

impl Dtype {
    /// What a card is opened with.
    pub fn math(self) -> Math {
        match self {
            Self::F32 => Math::F32,
            Self::Tf32 => Math::Tf32,
            Self::Auto | Self::Bf16 => Math::Bf16,
        }
    }

    pub(crate) fn of(math: Math) -> Self {
        match math {
            Math::F32 => Self::F32,
            Math::Tf32 => Self::Tf32,
            Math::Bf16 => Self::Bf16,
        }
    }
}

/// `[train]`: batches, loss and when to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Where the run is: `cpu`, `cuda:0`, or `auto`, a card where one can be used; `auto`. The run's own config names the
    /// one that was taken.
    pub device: String,
    /// Numbers that products are computed with; `auto`. The run's own config names what was taken.
    pub dtype: Dtype,
    /// Most tokens of a batch on its wider side, padding included: rows × longest; 4096.
    pub max_tokens: usize,
    /// Most pairs of a batch; 0 for no limit.
    pub max_rows: usize,
    /// Lengths are rounded up to multiples of this when like lengths are put together; 1.
    pub length_bucket: usize,
    /// Batches whose gradients make one step; 1.
    pub accumulate: usize,
    /// Steps after which the run ends; 0 for no limit. Steps are absolute: a resumed run counts on.
    pub max_steps: u64,
    /// Passes over the data after which it ends; 0 for no limit.
    pub max_epochs: u64,
    /// Minutes of training after which it ends, those before a resume included; 0 for no limit.
    pub max_minutes: f64,
    /// ε: what the right token gives to all (Szegedy et al. 2016); 0.1.
    pub label_smoothing: f32,
    /// α of R-Drop (Liang et al. 2021): two passes with different dropout shall agree; 0 for one pass.
    pub r_drop: f32,
    /// Decay of the moving average of weights that is validated and kept; 0 for the weights themselves.
    pub ema: f32,
    /// What happens when the loss explodes; the run stops.
    pub divergence: Divergence,
    /// Steps between two lines of the log; 50.
    pub log_every: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            dtype: Dtype::Auto,
            max_tokens: 4096,
            max_rows: 0,
            length_bucket: 1,
            accumulate: 1,
            max_steps: 0,
            max_epochs: 0,
            max_minutes: 0.0,
            label_smoothing: 0.1,
            r_drop: 0.0,
            ema: 0.0,
            divergence: Divergence::Stop,
            log_every: 50,
        }
    }
}

/// What a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// BLEU of real translations; higher is better.
    #[default]
    Bleu,
    /// chrF2 of real translations; higher is better.
    Chrf,
    /// Share of outputs that differ from their reference, the word error rate of grapheme-to-phoneme work; lower.
    Errors,
    /// Share of texts with the right label; higher is better. The usual one of classifiers.
    Accuracy,
    /// Cross-entropy of the references; lower is better.
    Loss,
}

impl Metric {
    /// Its name in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bleu => "bleu",
            Self::Chrf => "chrf",
            Self::Errors => "errors",
            Self::Accuracy => "accuracy",
            Self::Loss => "loss",
        }
    }
}

/// `[validation]`: how often and by what the model is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidationConfig {
    /// Steps between two validations; 0: by epochs.
    pub every_steps: u64,
    /// Epochs between two validations, where `every_steps` is 0; 1.
    pub every_epochs: u64,
    /// A validation also comes when so many minutes have passed; 0 for never. Such a run cannot be repeated to the bit,
    /// since time decides.
    pub every_minutes: f64,
    /// What chooses the best checkpoint; default: `bleu`, of classifiers `accuracy`.
    pub metric: Metric,
    /// How BLEU cuts text: `13a`, `none` for text that is tokenised, and the others of `polyhead score`; `13a`.
    pub tokenize: String,
    /// Hypotheses followed in validation; 1.
    pub beam_size: usize,
    /// Rows of a corpus that are translated or classified, the first ones; 0 for all.
    pub max_pairs: usize,
    /// Validations without a better score after which the run ends; 0 for never.
    pub patience: u64,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_epochs: 1,
            every_minutes: 0.0,
            metric: Metric::Bleu,
            tokenize: "13a".into(),
            beam_size: 1,
            max_pairs: 0,
            patience: 0,
        }
    }
}

/// What the run's `model` folder is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Final {
    /// The best checkpoint.
    #[default]
    Best,
    /// The mean of the `average` best checkpoints.
    AverageBest,
    /// The mean of the `average` last checkpoints at which a validation was due.
    AverageLast,
    /// The last checkpoint.
    Last,
}

/// Numbers of the finished model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// As they were trained.
    #[default]
    F32,
    /// Rounded to half the bytes.
    Bf16,
}

/// `[checkpoint]`: what is written and kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Steps between two checkpoints, besides one at every validation; 0 for none besides.
    pub every_steps: u64,
    /// A checkpoint also comes when so many minutes have passed; 10. 0 for never.
    pub every_minutes: f64,
    /// Checkpoints kept, the newest ones; 2 at least, so that a damaged one has another behind it. 2.
    pub keep_last: usize,
    /// Checkpoints kept, the best ones; 1.
    pub keep_best: usize,
    /// What the finished model is; the best checkpoint.
    pub r#final: Final,
    /// How many checkpoints an average is made of; 5.
    pub average: usize,
    /// Numbers of the finished model; f32.
    pub dtype: Precision,
    /// Hypotheses followed when the finished model translates; 5.
    pub beam_size: usize,
    /// Exponent of the length that scores are divided by when the finished model translates; 1.
    pub length_penalty: f64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_minutes: 10.0,
            keep_last: 2,
            keep_best: 1,
            r#final: Final::Best,
            average: 5,
            dtype: Precision::F32,
            beam_size: 5,
            length_penalty: 1.0,
        }
    }
}
