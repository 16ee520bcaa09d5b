//! What can go wrong on the way from a corpus to a model.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Messages name the file or the key, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A corpus, a tokeniser or a file.
    #[error(transparent)]
    Text(#[from] polyhead_text::Error),
    /// The model.
    #[error(transparent)]
    Model(#[from] polyhead_models::Error),
    /// Decoding for validation.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// A config that cannot be understood or followed.
    #[error("{place}: {message}")]
    Config {
        /// The file, with its line where that is known, or the key.
        place: String,
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// A run folder or a checkpoint does not hold what it should.
    #[error("{}: {message}", path.display())]
    Run {
        /// The file or folder.
        path: PathBuf,
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// The loss is no number any more, or far above what it was.
    #[error("step {step}: {what}")]
    Diverged {
        /// The step that was not taken.
        step: u64,
        /// What was seen, and which checkpoint is the last good one.
        what: String,
    },
    /// The work needs more memory than there is.
    #[error("{message}")]
    Memory {
        /// What is needed and what there is.
        message: String,
    },
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Text(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Translate(error) => error.hint(),
            Self::Config { hint, .. } | Self::Run { hint, .. } => hint.clone(),
            Self::Diverged { .. } => {
                "lower schedule.peak, raise schedule.warmup_steps or set optimizer.clip_norm = 1.0; \
                                      train.divergence = \"halve\" goes back and halves the rate by itself"
                    .into()
            }
            Self::Memory { .. } => {
                "a smaller train.max_tokens (with train.accumulate for the same step), or a smaller \
                                    model.preset or tokenizer.vocab_size, needs less"
                    .into()
            }
        }
    }

    /// True where the caller asked for something that makes no sense, rather than something having failed.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Config { .. } => true,
            Self::Text(error) => error.is_misuse(),
            _ => false,
        }
    }

    pub(crate) fn config(
        place: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Config { place: place.into(), message: message.into(), hint: hint.into() }
    }

    pub(crate) fn run(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Run { path: path.to_owned(), message: message.into(), hint: hint.into() }
    }

    pub(crate) fn io(path: &Path, action: &'static str, error: std::io::Error) -> Self {
        Self::Text(polyhead_text::Error::io(path, action, error))
    }
}

impl From<polyhead_tensor::Error> for Error {
    fn from(error: polyhead_tensor::Error) -> Self {
        Self::Model(error.into())
    }
}
