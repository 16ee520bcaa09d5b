//! `[classes]`: weights of the labels in the training loss.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `[classes]`: the labels of a classifier or tagger.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassesConfig {
    /// Weights of the labels in the training loss: `balanced`, or a table of labels and weights, in which a label that is left out has
    /// weight 1; default: none, all are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<ClassWeighting>,
}

/// How labels are weighted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"balanced\", or a table of labels and their weights")]
pub enum ClassWeighting {
    /// By a rule.
    Rule(WeightRule),
    /// By a weight for each label.
    Table(BTreeMap<String, f32>),
}

/// A rule that follows from the training text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightRule {
    /// n / (k · n_c) for a label that n_c of n texts have, of k labels: all labels weigh the same together.
    Balanced,
}
