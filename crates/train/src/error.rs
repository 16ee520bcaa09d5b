//! Errors of training.

use std::path::Path;

use polyhead_text::Diagnostic;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of training. Messages name the file or key, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A corpus, a tokeniser or a file.
    #[error(transparent)]
    Text(#[from] polyhead_text::Error),
    /// The model.
    #[error(transparent)]
    Model(#[from] polyhead_models::Error),
    /// Decoding for validation, and the tokeniser of a model folder.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// An invalid config.
    #[error(transparent)]
    Config(Diagnostic),
    /// A run folder, a checkpoint or a file with unexpected contents.
    #[error(transparent)]
    Run(Diagnostic),
    /// The loss is NaN, infinite or far above its running mean.
    #[error("step {step}: {what}")]
    Diverged {
        /// The step that was discarded.
        step: u64,
        /// The loss, and the last good checkpoint.
        what: String,
    },
    /// Not enough memory.
    #[error("{message}")]
    Memory {
        /// Memory needed and memory available.
        message: String,
    },
}

impl Error {
    /// Suggested remedy, for the line `hint: …`.
    pub fn hint(&self) -> String {
        match self {
            Self::Text(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Translate(error) => error.hint(),
            Self::Config(found) | Self::Run(found) => found.hint.clone(),
            Self::Diverged { .. } => {
                "lower schedule.peak, raise schedule.warmup_steps or set optimizer.clip_norm = 1.0; \
                                      train.divergence = \"halve\" rolls back and halves the learning rate automatically"
                    .into()
            }
            Self::Memory { .. } => {
                "a smaller train.max_tokens (with train.accumulate for the same step), or a smaller \
                                    model.preset or tokenizer.vocab_size, needs less memory"
                    .into()
            }
        }
    }

    /// True if the caller made a mistake (exit code 2), false if something failed (exit code 1).
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::Text(error) => error.is_misuse(),
            _ => false,
        }
    }

    pub(crate) fn config(
        place: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Config(Diagnostic::at(place, message, hint))
    }

    pub(crate) fn run(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Run(Diagnostic::in_file(path, message, hint))
    }

    /// A problem in a line of a data file.
    pub(crate) fn data(
        place: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Run(Diagnostic::at(place, message, hint))
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
