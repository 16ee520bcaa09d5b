//! What a model can do, in words: views, and errors about a model of another view than the one expected.

use crate::Error;
use crate::encoder::EncoderHead;
use crate::model::ModelConfig;

/// The view of a model, which determines the tasks it can do and the objective it is trained with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// See [`crate::SequenceToSequence`].
    SequenceToSequence,
    /// See [`crate::Encoder`].
    Encoder,
    /// See [`crate::LanguageModel`].
    LanguageModel,
    /// See [`crate::PointerNetwork`].
    Pointer,
    /// See [`crate::ImageEncoder`].
    Image,
    /// See [`crate::SpeechRecognizer`].
    Speech,
    /// See [`crate::Captioner`].
    Caption,
}

impl View {
    /// The kind of model in words, as in "a language model".
    pub fn name(self) -> &'static str {
        match self {
            Self::SequenceToSequence => "a sequence-to-sequence model",
            Self::Encoder => "a text encoder or classifier",
            Self::LanguageModel => "a language model",
            Self::Pointer => "a pointer network",
            Self::Image => "an image classifier",
            Self::Speech => "a speech recogniser",
            Self::Caption => "an image captioner",
        }
    }
}

impl ModelConfig {
    /// The error about a model of this config where one of another view was expected.
    pub fn instead_of(&self, expected: View) -> Error {
        let view = self.view();
        let (found, hint) = match view {
            View::SequenceToSequence => (view.name(), "use it with polyhead translate"),
            View::Encoder => match self {
                Self::Bert(own) => EncoderHead::from(own.head).describe(),
                _ => EncoderHead::Classes.describe(),
            },
            View::LanguageModel => (view.name(), "use it with polyhead generate"),
            View::Pointer => (view.name(), "use it with polyhead point"),
            View::Image => (view.name(), "use it with polyhead classify --image"),
            View::Speech => (view.name(), "use it with polyhead transcribe"),
            View::Caption => (view.name(), "use it with polyhead caption"),
        };
        Error::View { found, expected: expected.name(), hint }
    }
}
