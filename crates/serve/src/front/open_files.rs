//! The limit of open files and sockets of this process.

/// File descriptors kept free for models, logs, the listener and libraries.
pub const RESERVE: usize = 64;

/// Raises the soft limit of open files as far as allowed; returns the limit less [`RESERVE`].
#[cfg(unix)]
pub fn max_connections() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let found = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: found.maximum, maximum: found.maximum };
    // If it cannot be raised, the current limit applies.
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { found.maximum } else { found.current };
    allowed(limit)
}

/// A fixed number where the system has no such limit.
#[cfg(not(unix))]
pub fn max_connections() -> usize {
    allowed(Some(1024))
}

/// Connections under a limit of open files, which may be none.
fn allowed(limit: Option<u64>) -> usize {
    // tokio's semaphores hold at most about 2^61 permits.
    let limit = limit.map_or(1 << 32, |limit| limit.min(1 << 32)) as usize;
    limit.saturating_sub(RESERVE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_subtracted_and_one_connection_is_always_allowed() {
        assert_eq!([allowed(Some(1024)), allowed(Some(65)), allowed(Some(10))], [960, 1, 1]);
        assert!(allowed(None) >= 1 << 31 && allowed(Some(u64::MAX)) < 1 << 33);
        assert!(max_connections() >= 1);
    }
}
