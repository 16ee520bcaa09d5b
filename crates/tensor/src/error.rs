//! Errors of operations and devices.

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An operation got inputs it cannot work with, or a device failed. The message names the operation and the shapes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Shapes that do not fit together.
    #[error("{operation}: {name} has shape {found:?}, expected {expected}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The input in question.
        name: &'static str,
        /// The shape it has.
        found: Vec<usize>,
        /// The shape it should have, in words or numbers.
        expected: String,
    },
    /// An id outside the vocabulary.
    #[error("{operation}: id {id} at position {position}, expected less than {vocab_size}")]
    Id {
        /// The operation.
        operation: &'static str,
        /// The id.
        id: u32,
        /// Its position in the list of ids.
        position: usize,
        /// Rows of the table.
        vocab_size: usize,
    },
    /// An option outside its range.
    #[error("{operation}: {name} is {found}, expected {expected}")]
    Value {
        /// The operation.
        operation: &'static str,
        /// The option in question.
        name: &'static str,
        /// The value.
        found: f64,
        /// The accepted range.
        expected: &'static str,
    },
    /// A device cannot be used, or failed.
    #[error("{what}")]
    Device {
        /// Description of the problem.
        what: String,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The result is no longer wanted.
    #[error("the work was cancelled")]
    Cancelled,
}

impl Error {
    /// Advice to the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "check that the sizes in the config match each other",
            Self::Id { .. } => "check that tokeniser and model come from the same folder",
            Self::Value { .. } => "correct the option",
            Self::Device { hint, .. } => hint,
            Self::Cancelled => "ask again",
        }
    }
}

/// Returns the error that the input `name` of `operation` has shape `found`.
pub fn shape<T>(
    operation: &'static str,
    name: &'static str,
    found: &[usize],
    expected: impl Into<String>,
) -> Result<T> {
    Err(Error::Shape { operation, name, found: found.to_vec(), expected: expected.into() })
}
