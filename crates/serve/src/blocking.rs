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
