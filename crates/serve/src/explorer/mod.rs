//! The explorer's server: listens on this machine alone, sends the page and answers what it asks.
//!
//! 1. `guard.rs` refuses what does not come from the page itself, `routes.rs` says who answers what.
//! 2. `look.rs` asks the model; it works on threads of its own, two requests at a time, so that the page stays quick.

pub(crate) mod guard;
mod look;
pub(crate) mod routes;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use polyhead_translate::Engine;

use crate::server::Loaded;
use crate::wire::Limits;
use crate::{Error, Result};

/// The port that is tried first.
pub const PORT: u16 = 7465;

/// How many ports are tried from there.
const TRIED: u16 = 20;

/// Which port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// This one or none; 0 is any that is free.
    Exactly(u16),
    /// The first that is free from [`PORT`] on.
    Free,
}

/// A model that can be explored.
#[derive(Debug)]
pub struct Explorer {
    loaded: Arc<Loaded>,
    limits: Limits,
}

impl Explorer {
    /// For a loaded model; `name` is what the page calls it.
    pub fn new(engine: Engine, name: impl Into<String>) -> Self {
        Self::of(Arc::new(Loaded { engine, name: name.into(), serial: 0 }))
    }

    /// For a model that others use too.
    pub(crate) fn of(loaded: Arc<Loaded>) -> Self {
        Self { loaded, limits: Limits::default() }
    }

    fn engine(&self) -> &Engine {
        &self.loaded.engine
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Takes a port of this machine, which nobody else can reach.
    ///
    /// # Errors
    /// If the port is taken, or all that were tried.
    pub fn listen(self, port: Port) -> Result<Listening> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let (first, last) = match port {
            Port::Exactly(port) => (port, port),
            Port::Free => (PORT, PORT + TRIED - 1),
        };
        let mut tried = (first..=last).map(|port| bind(port).map_err(|source| Error::Port { port, source }));
        let failed = match tried.next().expect("one port at least") {
            Ok(listener) => return Listening::new(self, listener),
            Err(error) => error,
        };
        match tried.find_map(Result::ok) {
            Some(listener) => Listening::new(self, listener),
            None => Err(failed),
        }
    }
}

/// An explorer that has its port.
#[derive(Debug)]
pub struct Listening {
    explorer: Arc<Explorer>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    fn new(explorer: Explorer, listener: TcpListener) -> Result<Self> {
        let address = listener.local_addr().map_err(Error::Server)?;
        Ok(Self { explorer: Arc::new(explorer), listener, address })
    }

    /// Where the page is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the program ends.
    ///
    /// # Errors
    /// If the system takes the port away.
    pub fn run(self) -> Result<()> {
        let Self { explorer, listener, address } = self;
        // This thread for the network is plenty; models work on threads of their own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.map_err(Error::Server)?.block_on(async move {
            listener.set_nonblocking(true).map_err(Error::Server)?;
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Error::Server)?;
            let routes = routes::routes(Arc::new(move || Ok(explorer.clone())));
            axum::serve(listener, routes::guarded(routes, address)).await.map_err(Error::Server)
        })
    }
}
