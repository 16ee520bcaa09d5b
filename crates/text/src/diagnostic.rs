//! A problem that a user can correct: the shape that the error types of all crates share.
//!
//! ```
//! use polyhead_text::Diagnostic;
//! let found = Diagnostic::at("en-de.toml:3", "unknown key \"heads\"", "did you mean \"n_heads\"?");
//! assert_eq!(found.to_string(), "en-de.toml:3: unknown key \"heads\"");
//! ```

use std::path::Path;

/// Where something is wrong, what was found and expected, and what to do about it. `Display` is `place: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
pub struct Diagnostic {
    /// File, line or key; empty if the message needs none.
    pub place: String,
    /// What was found and what was expected.
    pub message: String,
    /// What the user can do about it.
    pub hint: String,
}

impl Diagnostic {
    /// A problem without a place.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::at(String::new(), message, hint)
    }

    /// A problem at a line or a key.
    pub fn at(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }

    /// A problem in a file or folder.
    pub fn in_file(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::at(path.display().to_string(), message, hint)
    }
}
