//! The door: accepts connections, so many and no more, and ends them in good order.
//!
//! axum's own server waits for clients without end. Here a head, a body, an unread answer and an idle connection have their
//! times; past the limit of connections nobody is accepted, so that clients wait in the system's queue; and when the
//! server ends, what was begun is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::connection::{self, Shared, Stage};
use super::open_files;

/// Connections that the system lets wait until they are accepted.
const BACKLOG: u32 = 4096;

/// How long the cut ones get to fall.
const FALL: Duration = Duration::from_secs(5);

/// How connections are kept.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The longest time from the first byte of a request's head to its last; 10 s.
    pub head: Duration,
    /// The longest time for a request's body; 30 s.
    pub body: Duration,
    /// The longest pause within a request's body; 10 s.
    pub body_pause: Duration,
    /// The longest time in which a client takes nothing of its answer; 60 s.
    pub write: Duration,
    /// The longest time between requests, and before the first; 60 s.
    pub idle: Duration,
    /// Connections that may be open at once; none is what the limit of open files allows, less 64.
    pub most: Option<usize>,
    /// The longest time in which running requests may finish when the server ends; 30 s.
    pub drain: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            head: seconds(10),
            body: seconds(30),
            body_pause: seconds(10),
            write: seconds(60),
            idle: seconds(60),
            most: None,
            drain: seconds(30),
        }
    }
}

/// Who is at the other end of a connection; stands in the extensions of every request. Behind a proxy it is the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(
    /// Its address.
    pub SocketAddr,
);

/// Counts of connections, for metrics.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicUsize,
    accepted: AtomicUsize,
}

impl Connections {
    /// How many are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many there ever were.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

/// How the connections ended that were open when the server was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// By themselves: idle, or after their answer.
    pub drained: usize,
    /// In the middle of a request, since the time was over.
    pub cut: usize,
}

/// Takes an address, with a long queue; within a runtime.
///
/// # Errors
/// If the address is taken or not ours.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Without it a server that is started again would wait for old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `routes` until `shutdown`, then drains. `connections` counts while it runs.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    options: ConnectionOptions,
    connections: Arc<Connections>,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let most = options.most.unwrap_or_else(open_files::most_connections).max(1);
    let drain = options.drain;
    let (stage, receiver) = watch::channel(Stage::Open);
    let door = Door {
        listener,
        most,
        places: Arc::new(Semaphore::new(most)),
        shared: Arc::new(Shared { routes, options, is_ending: AtomicBool::new(false) }),
        connections: connections.clone(),
        stage: receiver,
    };
    tokio::select! {
        biased;
        () = shutdown => {}
        () = door.accept_all() => {}
    }
    let waiting = door.accept_waiting().await;
    door.shared.is_ending.store(true, Ordering::Relaxed);
    // It cannot fail while the door holds a receiver.
    let _ = stage.send(Stage::Draining);
    drop(door);
    let open = connections.open();
    tracing::info!(open, waiting, "no more connections; those that are open may finish");
    let cut = if timeout(drain, stage.closed()).await.is_ok() { 0 } else { connections.open() };
    if cut > 0 {
        // All may have ended just now.
        let _ = stage.send(Stage::Cut);
        let _ = timeout(FALL, stage.closed()).await;
    }
    Drained { drained: open.saturating_sub(cut), cut }
}

/// What accepting takes.
struct Door {
    listener: TcpListener,
    most: usize,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    stage: watch::Receiver<Stage>,
}

impl Door {
    /// Accepts for ever.
    async fn accept_all(&self) {
        let mut has_told_full = false;
        let mut has_told_error = false;
        loop {
            if self.places.available_permits() == 0 && !has_told_full {
                has_told_full = true;
                tracing::warn!(most = self.most, "all connections are taken; the next ones wait");
            }
            let place = self.places.clone().acquire_owned().await.expect("it is never closed");
            match self.listener.accept().await {
                Ok((stream, peer)) => self.begin(stream, peer, place),
                Err(error) => {
                    let pause = pause_after(&error);
                    if !pause.is_zero() && !has_told_error {
                        has_told_error = true;
                        tracing::error!(%error, "a connection cannot be accepted; tried again and again");
                    }
                    sleep(pause).await;
                }
            }
        }
    }

    /// Accepts those that wait already: the system has told their clients that they are connected. Says how many.
    async fn accept_waiting(&self) -> usize {
        let mut count = 0;
        while let Ok(place) = self.places.clone().try_acquire_owned() {
            // Long enough for the event loop to look.
            let next = timeout(Duration::from_millis(1), self.listener.accept()).await;
            let Ok(Ok((stream, peer))) = next else { break };
            self.begin(stream, peer, place);
            count += 1;
        }
        count
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, place: tokio::sync::OwnedSemaphorePermit) {
        // Answers are written whole, so that waiting for more of them only delays. Where it cannot be set, it is slower.
        let _ = stream.set_nodelay(true);
        let open = (Counted::new(self.connections.clone()), place);
        tokio::spawn(connection::serve(stream, peer, self.shared.clone(), self.stage.clone(), open));
    }
}

/// One open connection in the counts; it is there as long as this.
struct Counted(Arc<Connections>);

impl Counted {
    fn new(connections: Arc<Connections>) -> Self {
        connections.accepted.fetch_add(1, Ordering::Relaxed);
        connections.open.fetch_add(1, Ordering::Relaxed);
        Self(connections)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long to wait after an error. One of a single client is over with it; where the system has run out of something,
/// asking again at once would only burn the processor.
fn pause_after(error: &io::Error) -> Duration {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    match error.kind() {
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted => Duration::ZERO,
        _ => Duration::from_millis(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_one_clients_fault_makes_it_pause() {
        assert_eq!(pause_after(&io::ErrorKind::ConnectionAborted.into()), Duration::ZERO);
        // Too many open files, here and in the whole system.
        for code in [24, 23] {
            assert!(pause_after(&io::Error::from_raw_os_error(code)) >= Duration::from_millis(50));
        }
    }

    #[test]
    fn counts_follow_connections() {
        let connections = Arc::new(Connections::default());
        let one = Counted::new(connections.clone());
        let two = Counted::new(connections.clone());
        assert_eq!((connections.open(), connections.accepted()), (2, 2));
        drop((one, two));
        assert_eq!((connections.open(), connections.accepted()), (0, 2));
    }
}
