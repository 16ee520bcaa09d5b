//! How many files and sockets this process may have open.

/// Sockets are not all that is open: models, logs, the listener and what libraries hold need some.
pub const RESERVE: usize = 64;

/// Connections that the system's limit allows, less [`RESERVE`]. The limit is raised first as far as it may be.
#[cfg(unix)]
pub fn most_connections() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let found = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: found.maximum, maximum: found.maximum };
    // Where it cannot be raised, what there is must do.
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { found.maximum } else { found.current };
    allowed(limit)
}

/// Connections that are allowed where no limit can be asked for.
#[cfg(not(unix))]
pub fn most_connections() -> usize {
    allowed(Some(1024))
}

/// Of a limit, which may be none.
fn allowed(limit: Option<u64>) -> usize {
    // tokio's semaphores count no further than some 2^61.
    let limit = limit.map_or(1 << 32, |limit| limit.min(1 << 32)) as usize;
    limit.saturating_sub(RESERVE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_kept_and_one_connection_is_always_allowed() {
        assert_eq!([allowed(Some(1024)), allowed(Some(65)), allowed(Some(10))], [960, 1, 1]);
        assert!(allowed(None) >= 1 << 31 && allowed(Some(u64::MAX)) < 1 << 33);
        assert!(most_connections() >= 1);
    }
}
