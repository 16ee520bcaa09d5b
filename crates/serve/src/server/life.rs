//! A server from its first model to its last answer: opened, run, told to read everything again, and ended in good order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::desk::{Desk, DeskOptions};
use super::files::FilesOptions;
use super::gate::{Gate, GateOptions};
use super::gauges;
use super::limits::RequestLimits;
use super::routes::{KeyRule, Shared, routes, unknown};
use super::signals::{Signal, Signals};
use crate::blocking::blocking;
use crate::explorer::guard::safe;
use crate::explorer::{self, Explorer};
use crate::front::fields::Fields;
use crate::front::listen::{self, ConnectionOptions, Connections, Drained};
use crate::front::log::{RequestMetrics, watch};
use crate::front::metrics::Metrics;
use crate::front::origin::{Cors, Origins, guard};
use crate::{Error, Result};

/// How a server works.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where it listens; 127.0.0.1:5000, which only this machine can reach.
    pub listen: SocketAddr,
    /// Models, queue and workers.
    pub desk: DeskOptions,
    /// How much one request may ask for.
    pub limits: RequestLimits,
    /// Translated files that wait to be fetched.
    pub files: FilesOptions,
    /// Who is let in.
    pub gate: GateOptions,
    /// Names that the server is called by; those of this machine where only it is listened to, else any.
    pub hosts: Vec<String>,
    /// Pages of other origins that may ask; none.
    pub cors: Cors,
    /// How connections are kept.
    pub connections: ConnectionOptions,
    /// Whether the explorer is at `/`; where keys are required it is not. Yes.
    pub has_explorer: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 5000).into(),
            desk: DeskOptions::default(),
            limits: RequestLimits::default(),
            files: FilesOptions::default(),
            gate: GateOptions::default(),
            hosts: Vec::new(),
            cors: Cors::None,
            connections: ConnectionOptions::default(),
            has_explorer: true,
        }
    }
}

/// A server with its models and its address.
#[derive(Debug)]
pub struct Server {
    desk: Arc<Desk>,
    gate: Arc<Gate>,
    options: ServeOptions,
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    signals: Signals,
    address: SocketAddr,
}

impl Server {
    /// Takes the address, reads the keys and loads the first model.
    ///
    /// # Errors
    /// If the address is taken, or a file of keys or a model cannot be read.
    pub fn open(options: ServeOptions) -> Result<Self> {
        // One thread for the network is plenty; models work on threads of their own.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Server)?;
        let taken = |source| Error::Address { address: options.listen, source };
        let listener = runtime.block_on(async { listen::bind(options.listen) }).map_err(taken)?;
        let signals = runtime.block_on(async { Signals::new() }).map_err(Error::Server)?;
        let address = listener.local_addr().map_err(Error::Server)?;
        let gate = Arc::new(Gate::open(options.gate.clone())?);
        let desk = Arc::new(Desk::open(options.desk.clone())?);
        Ok(Self { desk, gate, options, runtime, listener, signals, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its models.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Serves until the system says that it is enough (SIGTERM, Ctrl-C); SIGHUP reads models and keys again.
    pub fn run(self) -> Drained {
        let Self { desk, gate, options, runtime, listener, mut signals, address } = self;
        let (metrics, connections) = (Metrics::new(), Arc::new(Connections::default()));
        gauges::add(&metrics, &desk, &connections);
        let requests = Arc::new(RequestMetrics::new(&metrics));
        let shared = Arc::new(shared(&desk, &gate, &options, metrics));
        let origins = Arc::new(Origins::new(address, &options.hosts, options.cors.clone()));
        let routes = all_routes(&shared, options.has_explorer)
            .layer(from_fn_with_state(origins, guard))
            .layer(from_fn_with_state(requests, watch));
        let ending = async {
            loop {
                match signals.next().await {
                    Signal::End => break,
                    Signal::Reload => drop(tokio::spawn(reload(desk.clone(), gate.clone()))),
                }
            }
            shared.is_open.store(false, Ordering::Relaxed);
            // Whoever cannot wait says it twice.
            tokio::spawn(async move {
                while signals.next().await != Signal::End {}
                std::process::exit(130);
            });
        };
        let drained =
            runtime.block_on(listen::serve(listener, routes, options.connections, connections, ending));
        desk.close();
        drained
    }
}

/// What every answer needs.
fn shared(desk: &Arc<Desk>, gate: &Arc<Gate>, options: &ServeOptions, metrics: Metrics) -> Shared {
    let admit = gate.clone();
    Shared {
        keys: gate.rule(),
        admit: Box::new(move |parts, fields| admit.admit(parts, fields)),
        metrics: Box::new(move || metrics.text()),
        ..Shared::new(desk.clone(), options.limits, options.files)
    }
}

/// Those of the server, and the explorer for everything else.
fn all_routes(shared: &Arc<Shared>, has_explorer: bool) -> Router {
    let own = routes(shared.clone());
    if !has_explorer || shared.keys == KeyRule::Required {
        return own.fallback(unknown);
    }
    let desk = shared.desk.clone();
    let source = move || Ok(Arc::new(Explorer::of(desk.loaded(None)?)));
    let explorer = explorer::routes::routes(Arc::new(source));
    own.merge(explorer.layer(from_fn_with_state(shared.clone(), let_in)))
}

/// Lets the explorer's calls in as all others; its files are for everybody.
async fn let_in(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_call = parts.uri.path().starts_with("/api/");
    if let Some(Err(refusal)) = is_call.then(|| (shared.admit)(&parts, &Fields::default())) {
        return refusal.into_response();
    }
    safe(next.run(Request::from_parts(parts, body)).await)
}

/// Reads models and keys again; what fails stays as it was, and is logged.
async fn reload(desk: Arc<Desk>, gate: Arc<Gate>) {
    for (what, found) in
        [("keys", blocking(move || gate.reload()).await), ("models", blocking(move || desk.reload()).await)]
    {
        match found {
            Ok(count) => tracing::info!(count, "{what} were read again"),
            Err(error) => {
                let hint = error.hint();
                tracing::error!(%error, hint, "{what} could not be read again and stay as they were");
            }
        }
    }
}
