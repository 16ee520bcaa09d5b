//! What can be wrong with the inputs of an operation.

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An operation was given what it cannot work with. The message names the operation and the shapes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Shapes that do not fit together.
    #[error("{operation}: {name} has shape {found:?}, expected {expected}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// Which of its inputs.
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
        /// Where it stands.
        position: usize,
        /// Rows of the table.
        vocab_size: usize,
    },
    /// A number that makes no sense.
    #[error("{operation}: {name} is {found}, expected {expected}")]
    Value {
        /// The operation.
        operation: &'static str,
        /// Which of its options.
        name: &'static str,
        /// The value.
        found: f64,
        /// What would do.
        expected: &'static str,
    },
    /// A device cannot be used, or failed.
    #[error("{what}")]
    Device {
        /// What is wrong.
        what: String,
        /// What the reader can do.
        hint: &'static str,
    },
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "do the sizes in the config belong together?",
            Self::Id { .. } => "are tokeniser and model from the same folder?",
            Self::Value { .. } => "correct the option",
            Self::Device { hint, .. } => hint,
        }
    }
}

/// The error that the input `name` of `operation` has the shape `found`.
pub fn shape<T>(
    operation: &'static str,
    name: &'static str,
    found: &[usize],
    expected: impl Into<String>,
) -> Result<T> {
    Err(Error::Shape { operation, name, found: found.to_vec(), expected: expected.into() })
}
