//! Recipe sections about training.

use std::path::PathBuf;

use polyhead_tensor::Dtype;
use serde::{Deserialize, Serialize};

/// `[optimizer]`: Adam with decoupled weight decay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
    /// β₁; default: 0.9.
    pub beta1: f32,
    /// β₂; default: 0.98, as in Vaswani et al. 2017.
    pub beta2: f32,
    /// ε; default: 1e-9, as in Vaswani et al. 2017.
    pub epsilon: f32,
    /// λ of decoupled weight decay; default: 0.
    pub weight_decay: f32,
    /// Gradient clipping: largest global norm; 0 for no limit; default: 1.
    pub clip_norm: f32,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.98, epsilon: 1e-9, weight_decay: 0.0, clip_norm: 1.0 }
    }
}

/// Reaction to a loss that diverges: NaN, infinite or far above its running mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divergence {
    /// Ends the run; the last checkpoint is good.
    #[default]
    Stop,
    /// Returns to the last checkpoint with half the learning rate, five times at most.
    Halve,
}

/// `[train]`: batches, training loss, and limits of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Device: `cpu`, `cuda:0`, or `auto` (a GPU if one can be used); default: `auto`. The config in the run folder names the
    /// device chosen.
    pub device: String,
    /// Compute dtype; default: `auto` (`None`): bf16 on a GPU, f32 on the CPU. `tf32` is f32 with the factors of matrix
    /// products rounded to TF32, `bf16` has activations and factors in bf16, weights and sums in f32; both need a GPU.
    /// The config in the run folder names the dtype chosen.
    #[serde(with = "super::dtype::compute")]
    pub dtype: Option<Dtype>,
    /// Maximum number of tokens in a batch on its longer side, padding included: rows × longest; default: 4096.
    pub max_tokens: usize,
    /// Maximum number of pairs in a batch; 0 for no limit; default: 0.
    pub max_rows: usize,
    /// Bucket width: lengths are rounded up to multiples of this when batches of similar lengths are formed; default: 1.
    pub length_bucket: usize,
    /// Gradient accumulation: batches per step; default: 1.
    pub accumulate: usize,
    /// Steps after which the run ends, those before a resume included; 0 for no limit; default: 0.
    pub max_steps: u64,
    /// Epochs after which the run ends; 0 for no limit; default: 0.
    pub max_epochs: u64,
    /// Minutes of training after which the run ends, those before a resume included; 0 for no limit; default: 0.
    pub max_minutes: f64,
    /// ε of label smoothing: probability mass spread over all tokens (Szegedy et al. 2016); default: 0.1.
    pub label_smoothing: f32,
    /// α of R-Drop (Liang et al. 2021), which makes two passes with different dropout agree; 0 for one pass; default: 0.
    pub r_drop: f32,
    /// Decay of the exponential moving average of the weights, which is validated and saved; 0 for none; default: 0.
    pub ema: f32,
    /// Reaction to a diverging loss; default: `stop`.
    pub divergence: Divergence,
    /// Steps between two log lines; default: 50.
    pub log_every: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            dtype: None,
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

/// Validation metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// BLEU of decoded translations; higher is better.
    #[default]
    Bleu,
    /// chrF2 of decoded translations; higher is better.
    Chrf,
    /// Share of outputs that differ from their reference (the word error rate of grapheme-to-phoneme conversion); lower is
    /// better.
    Errors,
    /// Share of texts with the right label; higher is better. Default of classifiers.
    Accuracy,
    /// F1: of classifiers the mean over the labels (macro F1), of taggers that of spans; higher is better. Default of taggers.
    F1,
    /// Word error rate of transcribed sounds; lower is better. Default of speech recognisers.
    Wer,
    /// Spearman's correlation of cosines with the scores of `validation.judged`; higher is better.
    Spearman,
    /// Share of the facts in captions that are right (objects, colours, relations, positions, sizes), in percent; needs the facts
    /// of the images; higher is better.
    Facts,
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
            Self::F1 => "f1",
            Self::Wer => "wer",
            Self::Spearman => "spearman",
            Self::Facts => "facts",
            Self::Loss => "loss",
        }
    }

    /// The metric's own value of a score that is higher for better models.
    pub(crate) fn value(self, merit: f64) -> f64 {
        match self {
            Self::Bleu | Self::Chrf | Self::Accuracy | Self::F1 | Self::Spearman | Self::Facts => merit,
            Self::Errors | Self::Wer | Self::Loss => -merit,
        }
    }
}

/// `[validation]`: frequency and metric of validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidationConfig {
    /// Steps between two validations; 0 to count epochs instead; default: 0.
    pub every_steps: u64,
    /// Epochs between two validations, if `every_steps` is 0; default: 1.
    pub every_epochs: u64,
    /// Minutes after which a validation is due as well; 0 for never; default: 0. Such a run cannot be reproduced to the bit,
    /// since it depends on time.
    pub every_minutes: f64,
    /// Metric that chooses the best checkpoint; default: `bleu`, of classifiers `accuracy`, of taggers `f1`, of speech
    /// recognisers `wer`.
    pub metric: Metric,
    /// File of two texts and a score of their similarity on each line, between tabs, as in STS-B; for models of text vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<PathBuf>,
    /// Tokenisation of BLEU: `13a`, `none` for tokenised text, and the others of `polyhead score`; default: `13a`.
    pub tokenize: String,
    /// Beam size in validation; default: 1.
    pub beam_size: usize,
    /// Maximum number of rows per corpus that are translated or classified, from the first on; 0 for all; default: 0.
    pub max_pairs: usize,
    /// Validations without a better score after which the run ends; 0 for never; default: 0.
    pub patience: u64,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_epochs: 1,
            every_minutes: 0.0,
            metric: Metric::Bleu,
            judged: None,
            tokenize: "13a".into(),
            beam_size: 1,
            max_pairs: 0,
            patience: 0,
        }
    }
}

/// Choice of the finished model, in the run's `model` folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalModel {
    /// The best on the validation set of: the best checkpoint, the last one, the mean of the `average` best and the mean of
    /// the last `average`. Without validation text, the last checkpoint.
    #[default]
    Compare,
    /// The best checkpoint.
    Best,
    /// The mean of the `average` best checkpoints.
    AverageBest,
    /// The mean of the last `average` checkpoints at which a validation was due.
    AverageLast,
    /// The last checkpoint.
    Last,
}

/// `[checkpoint]`: checkpoints, and the finished model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Steps between two checkpoints, in addition to one at every validation; 0 for none; default: 0.
    pub every_steps: u64,
    /// Minutes after which a checkpoint is written as well; 0 for never; default: 10.
    pub every_minutes: f64,
    /// Number of newest checkpoints to keep, at least 2 in case the last is damaged; default: 2.
    pub keep_last: usize,
    /// Number of best checkpoints to keep; default: 1.
    pub keep_best: usize,
    /// The finished model; default: `compare`.
    pub r#final: FinalModel,
    /// Number of checkpoints to average; 1 compares single checkpoints only; default: 5.
    pub average: usize,
    /// Dtype of the finished model: `f32`, or `bf16`, half the size; default: `f32`.
    #[serde(with = "super::dtype::stored")]
    pub dtype: Dtype,
    /// Beam size of the finished model; default: 5.
    pub beam_size: usize,
    /// Length penalty of the finished model: exponent of the length that scores are divided by; default: 1.
    pub length_penalty: f64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_minutes: 10.0,
            keep_last: 2,
            keep_best: 1,
            r#final: FinalModel::Compare,
            average: 5,
            dtype: Dtype::F32,
            beam_size: 5,
            length_penalty: 1.0,
        }
    }
}
