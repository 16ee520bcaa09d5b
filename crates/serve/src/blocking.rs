//! Work that takes its time, on a thread where it keeps nobody waiting.

use crate::{Error, Result};

/// What `work` came to; one that broke down is an error like others.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|broken| match broken.try_into_panic() {
        Ok(panic) => Err(Error::of_panic(&*panic)),
        Err(ended) => Err(Error::Broken { found: ended.to_string() }),
    })
}
