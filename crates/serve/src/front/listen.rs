//! Accepts connections up to a limit, and drains them at shutdown.
//!
//! `axum::serve` has no timeouts and no limit of connections. Here the head and the body of a request, an unread answer and an
//! idle connection have timeouts; a client that has as many connections as are free gets no more; past the limit of all
//! connections clients wait in the system's backlog; and at shutdown requests that have begun are answered.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::budget::{MemoryBudget, MemoryReservation, OutOfMemory};
use super::connection::{self, ConnectionContext, Stage};
use super::open_files;
use super::rate::Client;

/// Connections that wait in the system's queue until they are accepted.
const BACKLOG: u32 = 4096;

/// Memory of an idle connection.
const IDLE_BYTES: usize = 2 << 10;

/// Time for cut connections to end.
const CUT_GRACE: Duration = Duration::from_secs(5);

/// Timeouts and limits of connections.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Maximum time from the first to the last byte of a request's head; default: 10 s.
    pub head: Duration,
    /// Maximum time of a request's body; default: 30 s.
    pub body: Duration,
    /// Maximum pause within a request's body; default: 10 s.
    pub body_pause: Duration,
    /// Time after which a client that reads its answer more slowly than `least_rate` is cut off; default: 30 s.
    pub write: Duration,
    /// Bytes per second of an answer that a client reads at least; default: 4096.
    pub least_rate: usize,
    /// Maximum time between requests, and before the first; default: 60 s.
    pub idle: Duration,
    /// Maximum open connections; a client has at most as many as it leaves free; default: the limit of open files less 64.
    pub most: Option<usize>,
    /// Addresses of proxies, whose connections are those of many clients; default: none.
    pub trusted_proxies: Vec<IpAddr>,
    /// Memory budget in which connections are counted; default: none.
    pub memory: Option<Arc<MemoryBudget>>,
    /// Maximum time for running requests to finish at shutdown; default: 30 s.
    pub drain: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            head: seconds(10),
            body: seconds(30),
            body_pause: seconds(10),
            write: seconds(30),
            least_rate: 4096,
            idle: seconds(60),
            most: None,
            trusted_proxies: Vec::new(),
            memory: None,
            drain: seconds(30),
        }
    }
}

/// The other end of a connection, an extension of every request. Behind a proxy it is the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(
    /// Its address.
    pub SocketAddr,
);

/// Numbers of connections, for metrics.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicUsize,
    accepted: AtomicUsize,
    refused: AtomicUsize,
}

impl Connections {
    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Number of connections accepted since the start.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Number of connections refused since the start, because their clients had too many.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Outcome of the connections that were open at shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that ended idle or after their answer.
    pub drained: usize,
    /// Connections that were cut off within a request, after the time limit.
    pub cut: usize,
}

/// Binds an address, with a long backlog; within a runtime.
///
/// # Errors
/// If the address is in use or not of this machine.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Without it a restarted server would have to wait for old connections to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `routes` until `shutdown`, then drains; updates `connections`.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    options: ConnectionOptions,
    connections: Arc<Connections>,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let most = options.most.unwrap_or_else(open_files::max_connections).max(1);
    let drain = options.drain;
    let (stage, receiver) = watch::channel(Stage::Open);
    let acceptor = Acceptor {
        listener,
        most,
        permits: Arc::new(Semaphore::new(most)),
        // The first connection of a client always finds its share.
        shares: Arc::new(MemoryBudget::new(most.max(4))),
        context: Arc::new(ConnectionContext { routes, options, is_ending: AtomicBool::new(false) }),
        connections: connections.clone(),
        stage: receiver,
    };
    tokio::select! {
        biased;
        () = shutdown => {}
        () = acceptor.accept_all() => {}
    }
    let waiting = acceptor.accept_waiting().await;
    acceptor.context.is_ending.store(true, Ordering::Relaxed);
    // It cannot fail while the acceptor holds a receiver.
    let _ = stage.send(Stage::Draining);
    drop(acceptor);
    let open = connections.open();
    tracing::info!(open, waiting, "shutting down; open connections may finish");
    let cut = if timeout(drain, stage.closed()).await.is_ok() { 0 } else { connections.open() };
    if cut > 0 {
        // All may have ended by now.
        let _ = stage.send(Stage::Cut);
        let _ = timeout(CUT_GRACE, stage.closed()).await;
    }
    Drained { drained: open.saturating_sub(cut), cut }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    most: usize,
    permits: Arc<Semaphore>,
    /// Connections by client, counted like memory.
    shares: Arc<MemoryBudget>,
    context: Arc<ConnectionContext>,
    connections: Arc<Connections>,
    stage: watch::Receiver<Stage>,
}

impl Acceptor {
    /// Accepts connections forever.
    async fn accept_all(&self) {
        let mut has_logged_full = false;
        let mut has_logged_error = false;
        loop {
            if self.permits.available_permits() == 0 && !has_logged_full {
                has_logged_full = true;
                tracing::warn!(most = self.most, "connection limit reached; new connections wait");
            }
            let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
            match self.listener.accept().await {
                Ok((stream, peer)) => self.begin(stream, peer, permit),
                Err(error) => {
                    let pause = pause_after(&error);
                    if !pause.is_zero() && !has_logged_error {
                        has_logged_error = true;
                        tracing::error!(%error, "cannot accept a connection; retrying");
                    }
                    sleep(pause).await;
                }
            }
        }
    }

    /// Accepts the connections in the backlog, whose clients are connected already; returns their number.
    async fn accept_waiting(&self) -> usize {
        let mut count = 0;
        while let Ok(permit) = self.permits.clone().try_acquire_owned() {
            // Long enough for the event loop to poll once.
            let next = timeout(Duration::from_millis(1), self.listener.accept()).await;
            let Ok(Ok((stream, peer))) = next else { break };
            self.begin(stream, peer, permit);
            count += 1;
        }
        count
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, permit: tokio::sync::OwnedSemaphorePermit) {
        let Ok(share) = self.share(peer) else {
            self.connections.refused.fetch_add(1, Ordering::Relaxed);
            return connection::refuse(stream);
        };
        // Answers are written in one piece, so Nagle's algorithm would only delay them; a failure to set this only costs time.
        let _ = stream.set_nodelay(true);
        let open = (ConnectionGuard::new(self.connections.clone()), permit, share);
        tokio::spawn(connection::serve(stream, peer, self.context.clone(), self.stage.clone(), open));
    }

    /// The share of a new connection in its client's connections and memory; none for a proxy.
    fn share(&self, peer: SocketAddr) -> Result<[Option<MemoryReservation>; 2], OutOfMemory> {
        let Some(client) = self.context.options.client(peer) else { return Ok([None, None]) };
        let connection = self.shares.reserve(&client, 1)?;
        let memory = self.context.options.memory.as_ref().map(|memory| memory.reserve(&client, IDLE_BYTES));
        Ok([Some(connection), memory.transpose()?])
    }
}

impl ConnectionOptions {
    /// The client at an address; none for a trusted proxy.
    pub(super) fn client(&self, peer: SocketAddr) -> Option<Client> {
        let address = peer.ip().to_canonical();
        let is_proxy = self.trusted_proxies.iter().any(|proxy| proxy.to_canonical() == address);
        (!is_proxy).then(|| Client::from_address(address))
    }
}

/// Counts one open connection until it is dropped.
struct ConnectionGuard(Arc<Connections>);

impl ConnectionGuard {
    fn new(connections: Arc<Connections>) -> Self {
        connections.accepted.fetch_add(1, Ordering::Relaxed);
        connections.open.fetch_add(1, Ordering::Relaxed);
        Self(connections)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Pause after a failed `accept`. An error of a single client needs none; if the system has run out of a resource, retrying at
/// once would only burn CPU time.
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
    fn only_errors_of_the_system_cause_a_pause() {
        assert_eq!(pause_after(&io::ErrorKind::ConnectionAborted.into()), Duration::ZERO);
        // Too many open files, here and in the whole system.
        for code in [24, 23] {
            assert!(pause_after(&io::Error::from_raw_os_error(code)) >= Duration::from_millis(50));
        }
    }

    #[test]
    fn counts_follow_connections() {
        let connections = Arc::new(Connections::default());
        let one = ConnectionGuard::new(connections.clone());
        let two = ConnectionGuard::new(connections.clone());
        assert_eq!((connections.open(), connections.accepted()), (2, 2));
        drop((one, two));
        assert_eq!((connections.open(), connections.accepted()), (0, 2));
    }
}
