//! The explorer's server: listens on the loopback address, serves the page and its API.
//!
//! 1. `guard.rs` refuses requests of other pages, `routes.rs` maps paths to handlers.
//! 2. `translation.rs` translates and traces, `inspect.rs` runs the model, on threads of its own, two requests at a time, so that the page stays responsive.
//! 3. `text.rs` does the same for a language model, `encoder.rs` for an encoder, `image.rs` for an image classifier, `sound.rs` for a speech
//!    recogniser. `compare.rs` compares words in context with any of
//!    them.
//! 4. `call.rs` has the memory, the turn and the deadline of a call.

mod call;
mod compare;
mod embeddings;
mod encoder;
pub(crate) mod guard;
mod image;
mod inspect;
pub(crate) mod routes;
mod sound;
mod text;
mod translation;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use polyhead_translate::Engine;

use crate::server::LoadedModel;
use crate::wire::ExplorerLimits;
use crate::{Error, Result};

pub use encoder::EncoderExplorer;
pub use image::ImageExplorer;
pub use sound::SoundExplorer;
pub use text::TextExplorer;

/// The port that is tried first.
pub const PORT: u16 = 7465;

/// Number of ports that are tried from there.
const N_PORTS: u16 = 20;

/// The port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Exactly this port; 0 takes any free one.
    Exactly(u16),
    /// The first free port from [`PORT`] on.
    Free,
}

/// The explorer of a model.
#[derive(Debug)]
pub struct Explorer {
    loaded: Arc<LoadedModel>,
    limits: ExplorerLimits,
    /// The language to translate English texts into, where none is chosen.
    english_to: Option<String>,
}

impl Explorer {
    /// The explorer of a loaded model; `name` is shown on the page.
    pub fn new(engine: Engine, name: impl Into<String>) -> Self {
        Self::shared(Arc::new(LoadedModel { engine, name: name.into(), serial: 0 }))
    }

    /// The explorer of a shared model.
    pub(crate) fn shared(loaded: Arc<LoadedModel>) -> Self {
        Self { loaded, limits: ExplorerLimits::default(), english_to: None }
    }

    fn engine(&self) -> &Engine {
        &self.loaded.engine
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: ExplorerLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the language to translate English texts into, where none is chosen; default: Turkish.
    #[must_use]
    pub fn with_english_to(self, english_to: Option<String>) -> Self {
        Self { english_to, ..self }
    }

    /// Binds a port of the loopback address, which only this machine can reach.
    ///
    /// # Errors
    /// If the port is in use, or all that were tried.
    pub fn listen(self, port: Port) -> Result<Listening> {
        let listener = bind(port)?;
        let explorer = Arc::new(self);
        let source: routes::ExplorerSource<Self> = Arc::new(move || Ok(explorer.clone()));
        Listening::new(routes::routes(source, routes::ExplorerOptions::default()), listener)
    }
}

/// Binds a port of the loopback address.
fn bind(port: Port) -> Result<TcpListener> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let (first, last) = match port {
        Port::Exactly(port) => (port, port),
        Port::Free => (PORT, PORT + N_PORTS - 1),
    };
    let mut tried = (first..=last).map(|port| bind(port).map_err(|source| Error::Port { port, source }));
    let failed = match tried.next().expect("one port at least") {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    tried.find_map(Result::ok).ok_or(failed)
}

/// An explorer with its bound port.
#[derive(Debug)]
pub struct Listening {
    routes: Router,
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    fn new(routes: Router, listener: TcpListener) -> Result<Self> {
        let address = listener.local_addr().map_err(Error::Server)?;
        Ok(Self { routes, listener, address })
    }

    /// Address of the page.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the program ends.
    ///
    /// # Errors
    /// If the listener fails.
    pub fn run(self) -> Result<()> {
        let Self { routes, listener, address } = self;
        // One thread is plenty for the network; models run on threads of their own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(Error::Server)?.block_on(async move {
            listener.set_nonblocking(true).map_err(Error::Server)?;
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Error::Server)?;
            axum::serve(listener, routes::guarded(routes, address)).await.map_err(Error::Server)
        })
    }
}
