//! Errors of word vectors and n-gram models.

use std::path::Path;

use polyhead_text::Diagnostic;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Messages name the file or the option, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A text that cannot be read, or a file that cannot be written.
    #[error(transparent)]
    Text(#[from] polyhead_text::Error),
    /// A file with unexpected content.
    #[error(transparent)]
    File(Diagnostic),
    /// An invalid option, or a request that the data cannot serve.
    #[error(transparent)]
    Request(Diagnostic),
}

impl Error {
    /// A hint: what the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Text(error) => error.hint(),
            Self::File(found) | Self::Request(found) => found.hint.clone(),
        }
    }

    /// True if the caller made a mistake (exit code 2), false if something failed (exit code 1).
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Text(error) => error.is_misuse(),
            Self::File(_) => false,
            Self::Request(_) => true,
        }
    }

    /// A failed system call on `path`.
    pub fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Text(polyhead_text::Error::io(path, action, source))
    }

    /// A file with unexpected content.
    pub fn file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File(Diagnostic::in_file(path, message, hint))
    }

    /// A file with unexpected content at `line`, from 1.
    pub fn line(path: &Path, line: u64, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File(Diagnostic::at(format!("{}:{line}", path.display()), message, hint))
    }

    /// An invalid option, or a request that the data cannot serve.
    pub fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request(Diagnostic::new(message, hint))
    }
}
