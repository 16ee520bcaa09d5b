//! `metrics.jsonl`: one JSON object a line, for every program that reads text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A line about training: means since the line before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainLine {
    /// Steps made, counted from the beginning of the run.
    pub step: u64,
    /// Epochs made, the present one in parts.
    pub epoch: f64,
    /// Mean cross-entropy of a target token, smoothed labels included.
    pub loss: f64,
    /// e to the loss.
    pub perplexity: f64,
    /// The rate of the last step.
    pub learning_rate: f64,
    /// Mean norm of the gradients before clipping.
    pub gradient_norm: f64,
    /// Target tokens seen since the beginning.
    pub target_tokens: u64,
    /// Target tokens a second.
    pub tokens_per_s: f64,
    /// Share of positions that are padding in this epoch.
    pub padding: f64,
    /// Seconds of training since the beginning.
    pub seconds: f64,
}

/// A line about a validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidLine {
    /// Steps made.
    pub step: u64,
    /// Epochs made.
    pub epoch: f64,
    /// Mean cross-entropy of a target token, without smoothing.
    pub loss: f64,
    /// e to the loss.
    pub perplexity: f64,
    /// Scores of translations by name.
    pub scores: BTreeMap<String, f64>,
    /// Whether none was better before.
    pub is_best: bool,
    /// Seconds of training since the beginning.
    pub seconds: f64,
}
