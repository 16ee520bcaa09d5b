//! Training tasks: everything outside the objectives that depends on the task.

use polyhead_models::encoder::EncoderHead;
use polyhead_models::{ModelConfig, View};
use serde::{Deserialize, Serialize};

use crate::config::Metric;

/// A training task: the key `task` of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Task {
    /// Sequence to sequence; see `translation`.
    #[default]
    #[serde(rename = "translate")]
    Translation,
    /// Label of a text; see `classification`.
    #[serde(rename = "classify")]
    Classification,
    /// Label of each word; see `tagging`.
    #[serde(rename = "tag")]
    Tagging,
    /// Next token of a text; see `language_model`.
    #[serde(rename = "language-model")]
    LanguageModel,
    /// Hidden words of a text; see `masked_language_model`.
    #[serde(rename = "masked-language-model")]
    MaskedLanguageModel,
    /// Vectors of texts; see `contrastive`.
    #[serde(rename = "contrastive")]
    Contrastive,
    /// Order of points; see `pointing`.
    #[serde(rename = "pointer")]
    Pointing,
    /// Label of an image; see `image_classification`.
    #[serde(rename = "classify-images")]
    ImageClassification,
    /// Text of a sound; see `transcription`.
    #[serde(rename = "transcribe")]
    Transcription,
    /// Text about an image; see `captioning`.
    #[serde(rename = "caption")]
    Captioning,
}

impl Task {
    /// The task of a model whose recipe names none.
    pub fn of(model: &ModelConfig) -> Self {
        match model.view() {
            View::SequenceToSequence => Self::Translation,
            View::Encoder => Self::Classification,
            View::LanguageModel => Self::LanguageModel,
            View::Pointer => Self::Pointing,
            View::Image => Self::ImageClassification,
            View::Speech => Self::Transcription,
            View::Caption => Self::Captioning,
        }
    }

    /// The view that a model of this task has.
    pub(crate) fn view(self) -> View {
        match self {
            Self::Translation => View::SequenceToSequence,
            Self::Classification | Self::Tagging | Self::MaskedLanguageModel | Self::Contrastive => {
                View::Encoder
            }
            Self::LanguageModel => View::LanguageModel,
            Self::Pointing => View::Pointer,
            Self::ImageClassification => View::Image,
            Self::Transcription => View::Speech,
            Self::Captioning => View::Caption,
        }
    }

    /// The head of an encoder for this task.
    pub(crate) fn head(self) -> Option<EncoderHead> {
        match self {
            Self::Classification => Some(EncoderHead::Classes),
            Self::Tagging => Some(EncoderHead::TokenClasses),
            Self::MaskedLanguageModel => Some(EncoderHead::MaskedLanguageModel),
            Self::Contrastive => Some(EncoderHead::None),
            Self::Translation
            | Self::LanguageModel
            | Self::Pointing
            | Self::ImageClassification
            | Self::Transcription
            | Self::Captioning => None,
        }
    }

    /// Its name in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Translation => "translate",
            Self::Classification => "classify",
            Self::Tagging => "tag",
            Self::LanguageModel => "language-model",
            Self::MaskedLanguageModel => "masked-language-model",
            Self::Contrastive => "contrastive",
            Self::Pointing => "pointer",
            Self::ImageClassification => "classify-images",
            Self::Transcription => "transcribe",
            Self::Captioning => "caption",
        }
    }

    /// The command that uses the finished model.
    pub fn command(self) -> &'static str {
        match self {
            Self::Translation => "translate",
            Self::Classification | Self::ImageClassification => "classify",
            Self::Tagging => "tag",
            Self::LanguageModel => "generate",
            Self::MaskedLanguageModel => "fill",
            Self::Contrastive => "embed",
            Self::Pointing => "point",
            Self::Transcription => "transcribe",
            Self::Captioning => "caption",
        }
    }

    /// What follows the command that uses the finished model.
    pub fn input(self) -> &'static str {
        match self {
            Self::ImageClassification => "--image FILE",
            Self::Transcription => "FILE.wav",
            Self::Captioning => "FILE.png",
            _ => "< TEXT",
        }
    }

    /// The default metric.
    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Translation | Self::Captioning => Metric::Bleu,
            Self::Classification | Self::Contrastive | Self::Pointing | Self::ImageClassification => {
                Metric::Accuracy
            }
            Self::Tagging => Metric::F1,
            Self::LanguageModel | Self::MaskedLanguageModel => Metric::Loss,
            Self::Transcription => Metric::Wer,
        }
    }

    /// The default of label smoothing; the loss of a language model is a score by itself and has none.
    pub(crate) fn label_smoothing(self) -> f32 {
        match self {
            Self::Translation
            | Self::Classification
            | Self::ImageClassification
            | Self::Transcription
            | Self::Captioning => 0.1,
            // Nearly all words have one tag, and the scores of padding are −∞ in a pointer network.
            Self::Tagging
            | Self::LanguageModel
            | Self::MaskedLanguageModel
            | Self::Contrastive
            | Self::Pointing => 0.0,
        }
    }

    /// True if rows are sentence pairs of two languages, which can be compared; false for labelled or plain text.
    pub(crate) fn has_pairs(self) -> bool {
        match self {
            Self::Translation => true,
            Self::Classification
            | Self::Tagging
            | Self::LanguageModel
            | Self::MaskedLanguageModel
            | Self::Contrastive
            | Self::Pointing
            | Self::ImageClassification
            | Self::Transcription
            | Self::Captioning => false,
        }
    }

    /// True if rows have labels.
    pub(crate) fn has_labels(self) -> bool {
        matches!(self, Self::Classification | Self::Tagging)
    }

    /// True if rows are text, which needs a tokeniser.
    pub(crate) fn has_text(self) -> bool {
        !matches!(self, Self::Pointing | Self::ImageClassification)
    }

    /// README title of a model without languages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Translation => "# A sequence-to-sequence model",
            Self::Classification => "# A classifier",
            Self::Tagging => "# A classifier of words",
            Self::LanguageModel => "# A language model",
            Self::MaskedLanguageModel => "# A masked language model",
            Self::Contrastive => "# Vectors of texts",
            Self::Pointing => "# A pointer network",
            Self::ImageClassification => "# An image classifier",
            Self::Transcription => "# A speech recogniser",
            Self::Captioning => "# An image captioner",
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
            Self::Tagging => "Use it with `polyhead tag --model FOLDER`.",
            Self::LanguageModel => "Use it with `polyhead generate --model FOLDER`.",
            Self::MaskedLanguageModel => {
                "Use it with `polyhead fill --model FOLDER`, or as `init` of a recipe with another task."
            }
            Self::Contrastive => {
                "Use it with `polyhead embed`, `similar` and `search`, or with sentence-transformers."
            }
            Self::Pointing => "Use it with `polyhead point --model FOLDER`.",
            Self::ImageClassification => "Use it with `polyhead classify --model FOLDER --image FILE`.",
            Self::Transcription => "Use it with `polyhead transcribe --model FOLDER`.",
            Self::Captioning => "Use it with `polyhead caption --model FOLDER`.",
        }
    }
}
