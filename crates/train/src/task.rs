//! Training tasks: everything outside the objectives that depends on the task.

use polyhead_models::{ModelConfig, View};

use crate::config::Metric;

/// A training task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Sequence to sequence; see `translation`.
    Translation,
    /// Label of a text; see `classification`.
    Classification,
}

impl Task {
    /// The task of a model.
    pub fn of(model: &ModelConfig) -> Self {
        match model.view() {
            View::SequenceToSequence => Self::Translation,
            View::Encoder => Self::Classification,
        }
    }

    /// The command that uses the finished model.
    pub fn command(self) -> &'static str {
        match self {
            Self::Translation => "translate",
            Self::Classification => "classify",
        }
    }

    /// The default metric.
    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Translation => Metric::Bleu,
            Self::Classification => Metric::Accuracy,
        }
    }

    /// True if rows are sentence pairs, which can be compared and share a tokeniser; false if the second column has labels.
    pub(crate) fn has_pairs(self) -> bool {
        match self {
            Self::Translation => true,
            Self::Classification => false,
        }
    }

    /// README title of a model without languages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Translation => "# A sequence-to-sequence model",
            Self::Classification => "# A classifier",
        }
    }

    /// Usage of the finished model, for its README.
    pub(crate) fn usage(self) -> &'static str {
        match self {
            Self::Translation => {
                "Use it with `polyhead translate --model FOLDER`, or with the Marian classes of transformers where its \
                 config.json names them."
            }
            Self::Classification => "Use it with `polyhead classify --model FOLDER`.",
        }
    }
}
