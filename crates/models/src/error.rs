//! What can be wrong with a model, its files or what it is asked for.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Messages name the file, the tensor or the option, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation was given what it cannot work with.
    #[error(transparent)]
    Tensor(#[from] polyhead_tensor::Error),
    /// A file cannot be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// A config that describes no model.
    #[error("{message}")]
    Config {
        /// What was found and what was expected.
        message: String,
    },
    /// A key of the section `[model]` of a recipe.
    #[error("{}{message}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
    Key {
        /// The key; empty for the whole section.
        key: String,
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// A model that cannot do what is asked of it.
    #[error("{found}, expected {expected}")]
    View {
        /// What it can do.
        found: &'static str,
        /// What was asked.
        expected: &'static str,
        /// What can be done about it.
        hint: &'static str,
    },
    /// Decoding was asked for what it cannot do.
    #[error("{message}")]
    Request {
        /// What was found and what was expected.
        message: String,
    },
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Tensor(error) => error.hint().into(),
            Self::Io { action, .. } if *action == "open" => "is the path right?".into(),
            Self::Io { .. } => "is there space, and may you read and write there?".into(),
            Self::File { hint, .. } | Self::Key { hint, .. } => hint.clone(),
            Self::View { hint, .. } => (*hint).into(),
            Self::Config { .. } => "correct the model's sizes and choices in the config".into(),
            Self::Request { .. } => "correct the options of decoding".into(),
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), message: message.into(), hint: hint.into() }
    }
}
