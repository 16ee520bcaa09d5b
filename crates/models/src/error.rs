//! Errors of models, their files and decoding requests.

use std::path::{Path, PathBuf};

use polyhead_text::Diagnostic;
use polyhead_text::error::system_message;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Messages name the file, the tensor or the option, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation received invalid input.
    #[error(transparent)]
    Tensor(#[from] polyhead_tensor::Error),
    /// A file cannot be read or written.
    #[error("{}: cannot {action}: {}", path.display(), system_message(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The action that failed, such as "read".
        action: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file with unexpected content.
    #[error(transparent)]
    File(Diagnostic),
    /// An invalid config.
    #[error("{message}")]
    Config {
        /// The problem: what was found and what was expected.
        message: String,
    },
    /// An invalid key in the section `[model]` of a recipe.
    #[error(transparent)]
    Key(Diagnostic),
    /// A model of the wrong kind for the task.
    #[error("{found}, expected {expected}")]
    View {
        /// The kind of model found.
        found: &'static str,
        /// The kind of model expected.
        expected: &'static str,
        /// A hint: what the user can do about it.
        hint: &'static str,
    },
    /// An invalid decoding request.
    #[error("{message}")]
    Request {
        /// The problem: what was found and what was expected.
        message: String,
    },
}

impl Error {
    /// A hint: what the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Tensor(error) => error.hint().into(),
            Self::Io { action, .. } if *action == "open" => {
                "check the spelling and the current folder".into()
            }
            Self::Io { .. } => "check the permissions and the free space".into(),
            Self::File(found) | Self::Key(found) => found.hint.clone(),
            Self::View { hint, .. } => (*hint).into(),
            Self::Config { .. } => "correct the model's config".into(),
            Self::Request { .. } => "correct the decoding options".into(),
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn key(key: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Key(Diagnostic::at(key, message, hint))
    }

    pub(crate) fn file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File(Diagnostic::in_file(path, message, hint))
    }
}
