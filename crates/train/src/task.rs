//! What a model is trained to do, by what it can do: all that depends on it outside the objectives themselves.

use polyhead_models::{ModelConfig, View};

use crate::config::Metric;

/// A task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// To write a sequence for another; see `translation`.
    Translation,
    /// To tell the label of a text; see `classification`.
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

    /// The usual metric.
    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Translation => Metric::Bleu,
            Self::Classification => Metric::Accuracy,
        }
    }

    /// True if a row is a pair of sentences, which can be compared and share a tokeniser; else the second column has labels.
    pub(crate) fn has_pairs(self) -> bool {
        match self {
            Self::Translation => true,
            Self::Classification => false,
        }
    }

    /// The title of a model without languages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Translation => "# A sequence-to-sequence model",
            Self::Classification => "# A classifier",
        }
    }

    /// How to use the finished model, for its README.
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
