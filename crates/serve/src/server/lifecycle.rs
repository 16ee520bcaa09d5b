//! The life cycle of a server: open, run, reload on SIGHUP, drain and end on SIGTERM.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::admission::{Admission, AdmissionOptions};
use super::files::FilesOptions;
use super::gauges;
use super::limits::RequestLimits;
use super::routes::{KeyPolicy, ServerState, routes, unknown};
use super::scheduler::{Scheduler, SchedulerOptions};
use super::signals::{Signal, Signals};
use crate::blocking::blocking;
use crate::explorer::guard::with_security_headers;
use crate::explorer::{self, Explorer};
use crate::front::listen::{self, ConnectionOptions, Connections, Drained};
use crate::front::log::{RequestMetrics, log_requests};
use crate::front::metrics::Metrics;
use crate::front::origin::{Cors, Origins, check_origin};
use crate::{Error, Result};

/// Threads that parse, split and join texts, and run the explorer. Each has memory of its own in the allocator.
const BLOCKING_THREADS: usize = 8;

/// Options of a [`Server`].
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Address to listen on; default: 127.0.0.1:5000, which only this machine can reach.
    pub listen: SocketAddr,
    /// Models, queue and workers.
    pub scheduler: SchedulerOptions,
    /// Limits on one request.
    pub limits: RequestLimits,
    /// Storage of translated files until they are downloaded.
    pub files: FilesOptions,
    /// API keys and rate limits.
    pub admission: AdmissionOptions,
    /// `Host` headers to accept; default: those of this machine on a loopback address, else any.
    pub hosts: Vec<String>,
    /// Other origins whose pages may call the server; default: none.
    pub cors: Cors,
    /// Timeouts and limits of connections.
    pub connections: ConnectionOptions,
    /// True if the explorer is served at `/`, unless keys are required; default: true.
    pub has_explorer: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 5000).into(),
            scheduler: SchedulerOptions::default(),
            limits: RequestLimits::default(),
            files: FilesOptions::default(),
            admission: AdmissionOptions::default(),
            hosts: Vec::new(),
            cors: Cors::None,
            connections: ConnectionOptions::default(),
            has_explorer: true,
        }
    }
}

/// A server with its scheduler and its bound address.
#[derive(Debug)]
pub struct Server {
    scheduler: Arc<Scheduler>,
    admission: Arc<Admission>,
    options: ServeOptions,
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    signals: Signals,
    address: SocketAddr,
}

impl Server {
    /// Binds the address, reads the keys and loads the first model.
    ///
    /// # Errors
    /// If the address cannot be bound, or the key file or a model cannot be read.
    pub fn open(options: ServeOptions) -> Result<Self> {
        // One thread is plenty for the network; models run on threads of their own.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(Error::Server)?;
        let failed = |source| Error::Address { address: options.listen, source };
        let listener = runtime.block_on(async { listen::bind(options.listen) }).map_err(failed)?;
        let signals = runtime.block_on(async { Signals::new() }).map_err(Error::Server)?;
        let address = listener.local_addr().map_err(Error::Server)?;
        let admission = Arc::new(Admission::open(options.admission.clone())?);
        let scheduler = Arc::new(Scheduler::open(options.scheduler.clone())?);
        Ok(Self { scheduler, admission, options, runtime, listener, signals, address })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Serves until SIGTERM or Ctrl-C; SIGHUP reloads models and keys.
    pub fn run(self) -> Drained {
        let Self { scheduler, admission, options, runtime, listener, mut signals, address } = self;
        let (metrics, connections) = (Metrics::new(), Arc::new(Connections::default()));
        gauges::add(&metrics, &scheduler, &connections);
        let requests = Arc::new(RequestMetrics::new(&metrics));
        let state = Arc::new(state(&scheduler, &admission, &options, metrics));
        let origins = Arc::new(Origins::new(address, &options.hosts, options.cors.clone()));
        let routes = all_routes(&state, options.has_explorer)
            .layer(from_fn_with_state(origins, check_origin))
            .layer(from_fn_with_state(requests, log_requests));
        let ending = async {
            loop {
                match signals.next().await {
                    Signal::End => break,
                    Signal::Reload => drop(tokio::spawn(reload(scheduler.clone(), admission.clone()))),
                }
            }
            state.is_open.store(false, Ordering::Relaxed);
            // A second signal ends the process at once.
            tokio::spawn(async move {
                while signals.next().await != Signal::End {}
                std::process::exit(130);
            });
        };
        let connection_options = ConnectionOptions {
            trusted_proxies: options.admission.trusted_proxies.clone(),
            memory: Some(scheduler.memory().clone()),
            ..options.connections
        };
        let drained =
            runtime.block_on(listen::serve(listener, routes, connection_options, connections, ending));
        scheduler.close();
        drained
    }
}

/// The state that all handlers share.
fn state(
    scheduler: &Arc<Scheduler>,
    admission: &Arc<Admission>,
    options: &ServeOptions,
    metrics: Metrics,
) -> ServerState {
    ServerState {
        keys: admission.policy(),
        gate: admission.clone(),
        metrics: Box::new(move || metrics.text()),
        ..ServerState::new(scheduler.clone(), options.limits, options.files)
    }
}

/// The routes of the server, and the explorer for all other paths.
fn all_routes(state: &Arc<ServerState>, has_explorer: bool) -> Router {
    let own = routes(state.clone());
    // The explorer shows translators.
    if !has_explorer || state.keys == KeyPolicy::Required || !state.scheduler.translates() {
        return own.fallback(unknown);
    }
    let scheduler = state.scheduler.clone();
    let source = move || Ok(Arc::new(Explorer::shared(scheduler.loaded(None)?)));
    let options = explorer::routes::ExplorerOptions {
        // Translations have the other cores.
        running: 1,
        threads: Some(1),
        deadline: state.limits.deadline,
        memory: state.memory.clone(),
    };
    let explorer = explorer::routes::routes(Arc::new(source), options);
    own.merge(explorer.layer(from_fn_with_state(state.clone(), admit_explorer)))
}

/// Checks key and rate of the explorer's API calls; its files are public.
async fn admit_explorer(State(state): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_call = parts.uri.path().starts_with("/api/");
    let entered = is_call.then(|| {
        let entry = state.gate.enter(&parts)?;
        state.scheduler.check_memory()?;
        state.gate.admit(entry, None)
    });
    let mut request = Request::from_parts(parts, body);
    match entered {
        Some(Err(response)) => return with_security_headers(response.into_response()),
        Some(Ok(client)) => drop(request.extensions_mut().insert(client)),
        None => {}
    }
    with_security_headers(next.run(request).await)
}

/// Reloads models and keys; logs failures and keeps the old ones.
async fn reload(scheduler: Arc<Scheduler>, admission: Arc<Admission>) {
    for (what, reloaded) in [
        ("keys", blocking(move || admission.reload()).await),
        ("models", blocking(move || scheduler.reload()).await),
    ] {
        match reloaded {
            Ok(count) => tracing::info!(count, "{what} reloaded"),
            Err(error) => {
                let hint = error.hint();
                tracing::error!(%error, hint, "{what} could not be reloaded; the old ones stay in use");
            }
        }
    }
}
