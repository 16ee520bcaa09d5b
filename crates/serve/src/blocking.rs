//! Runs slow work on a thread of its own, so that it does not block the event loop.

use crate::{Error, Result};

/// The result of `work`; a panic becomes an error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => Err(Error::from_panic(&*panic)),
        Err(cancelled) => Err(Error::Panicked { found: cancelled.to_string() }),
    })
}

/// Texts of more bytes are worked on by a thread of their own.
const INLINE: usize = 16 << 10;

/// The result of `work` on a text of so many bytes: at once if they are few, else on a thread of its own.
pub(crate) async fn blocking_if_large<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if bytes <= INLINE { work() } else { blocking(work).await }
}
