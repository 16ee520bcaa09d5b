//! What can be wrong with a folder or with what is asked of it.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Messages name the file or the option, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tokeniser or a text.
    #[error(transparent)]
    Text(#[from] polyhead_text::Error),
    /// The model or its decoding.
    #[error(transparent)]
    Model(#[from] polyhead_models::Error),
    /// A file of the folder does not hold what it should.
    #[error("{}: {message}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// Nobody waits for it any more.
    #[error("nobody waits for the result")]
    Unwanted,
    /// Something was asked for that this model or this program cannot do.
    #[error("{message}")]
    Request {
        /// What was found and what was expected.
        message: String,
        /// What can be done about it.
        hint: String,
    },
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Text(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Unwanted => "ask again".into(),
            Self::File { hint, .. } | Self::Request { hint, .. } => hint.clone(),
        }
    }

    /// True where the caller asked for something that makes no sense, rather than something having failed.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Text(error) => error.is_misuse(),
            Self::Model(error) => matches!(error, polyhead_models::Error::Request { .. }),
            Self::File { .. } | Self::Unwanted => false,
            Self::Request { .. } => true,
        }
    }

    /// A file of the folder that does not hold what it should.
    pub fn file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), message: message.into(), hint: hint.into() }
    }

    /// Something that this model or this program cannot do.
    pub fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request { message: message.into(), hint: hint.into() }
    }
}

impl From<polyhead_tensor::Error> for Error {
    fn from(error: polyhead_tensor::Error) -> Self {
        Self::Model(error.into())
    }
}
