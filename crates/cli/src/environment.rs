//! Environment variables that name folders.

use std::path::PathBuf;

/// The path in an environment variable; none if it is empty.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
