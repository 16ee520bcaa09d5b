//! Errors of model folders and of requests to them.

use std::path::Path;

use polyhead_text::Diagnostic;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Messages name the file or the option, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of a tokeniser or a text.
    #[error(transparent)]
    Text(#[from] polyhead_text::Error),
    /// An error of the model or its decoding.
    #[error(transparent)]
    Model(#[from] polyhead_models::Error),
    /// A file or folder with unexpected content.
    #[error(transparent)]
    File(Diagnostic),
    /// The request was cancelled: the result is no longer needed.
    #[error("the request was cancelled")]
    Cancelled,
    /// A request that this model or this program cannot fulfil.
    #[error(transparent)]
    Request(Diagnostic),
}

impl Error {
    /// A hint: what the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Text(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Cancelled => "send the request again".into(),
            Self::File(found) | Self::Request(found) => found.hint.clone(),
        }
    }

    /// True if the request was invalid, false if something failed.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Text(error) => error.is_misuse(),
            Self::Model(error) => matches!(error, polyhead_models::Error::Request { .. }),
            Self::File(_) | Self::Cancelled => false,
            Self::Request(_) => true,
        }
    }

    /// An error about a file or folder with unexpected content.
    pub fn file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File(Diagnostic::in_file(path, message, hint))
    }

    /// An error at a place such as `points.jsonl:3`.
    pub fn at(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File(Diagnostic::at(place, message, hint))
    }

    /// An error about a request that cannot be fulfilled.
    pub fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request(Diagnostic::new(message, hint))
    }
}

impl From<polyhead_tensor::Error> for Error {
    fn from(error: polyhead_tensor::Error) -> Self {
        Self::Model(error.into())
    }
}
