//! Signals of the operating system: end, or reload.

use std::io;

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    End,
    Reload,
}

#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    end: [tokio::signal::unix::Signal; 2],
    reload: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let end = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        Ok(Self { end, reload: signal(SignalKind::hangup())? })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let [terminate, interrupt] = &mut self.end;
        tokio::select! {
            _ = terminate.recv() => Signal::End,
            _ = interrupt.recv() => Signal::End,
            _ = self.reload.recv() => Signal::Reload,
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        // If signals cannot be received, none ever arrives.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::End
    }
}
