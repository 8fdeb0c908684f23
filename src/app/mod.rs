//! [`App::build`]: the one module that knows every part. The binary and the tests use it alike.

mod extended;
mod locks;
mod ports;
mod purchases;
mod shared;
mod state;
mod use_cases;
mod workers;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use mysql_connection::Database;

use crate::config::Config;
use crate::extensions;
use crate::http::{self, AppState};
use crate::readiness::Probe;
use extended::ExtensionParts;
use extension::{Extension, Worker};
use lifecycle::{Lifecycle, StopResult};
use locks::LockServers;
use shared::{Shared, Writers};
use shop_domain::Clock;
use shop_domain::outcome::Dependency;
use tokio_util::sync::{CancellationToken, DropGuard};
use use_cases::UseCases;
use utoipa_axum::router::OpenApiRouter;
use web::address::Proxies;
use web::connection_limiter::ConnectionLimiter;
use web::cross_site::CorsOrigins;
use web::hosts::Hosts;
use web::layers::LayerParts;
use web::listen_address::ListenAddress;
use web::listener::Listener;
use web::prober::{self, Prober, Probes};
use web::runtimes::Runtimes;
use web::server::{self, ServerOptions};

/// How long a start waits for the list of signed-out tokens. If it is not read by then, the service
/// starts nevertheless, and refuses every token until the list is read.
const FIRST_READ_MAX: Duration = Duration::from_secs(3);

/// How long a stop waits for the connections to the ledger to come back.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A probe for each lock server beside Redis and MySQL that the settings name.
///
/// # Errors
/// A sentence when a setting cannot be read.
pub fn lock_server_probes(config: &Config) -> Result<Vec<(Dependency, Probe)>, String> {
    Ok(LockServers::new(config)?.probes())
}

/// Listens at the address of the settings, unless listeners were passed; returns where it listens.
///
/// # Errors
/// A sentence when the address cannot be used.
fn listen(config: &Config, listeners: &mut Vec<Listener>) -> Result<Vec<ListenAddress>, String> {
    if listeners.is_empty() {
        listeners.push(Listener::bind(&config.http.addr, config.http.socket_mode)?);
    }
    let addresses: Result<Vec<_>, _> = listeners.iter().map(Listener::address).collect();
    addresses.map_err(|error| error.to_string())
}

/// What the layers around all routes need.
///
/// # Errors
/// A sentence when a setting cannot be used.
fn layers(
    config: &Config,
    shared: &Shared,
    addresses: &[ListenAddress],
) -> Result<LayerParts, String> {
    let is_loopback = addresses.iter().all(ListenAddress::is_loopback);
    Ok(LayerParts {
        hosts: Hosts::new(&config.http.hosts, is_loopback),
        cors: CorsOrigins::parse(&config.http.cors_origins)?,
        metrics: shared.metrics.clone(),
        is_secure: config.http.cookie_secure,
        page_policy: http::page_policy,
    })
}

/// A service whose parts are built and whose port is open, but that does not serve yet.
pub struct App {
    config: Config,
    connection_limiter: ConnectionLimiter,
    listeners: Vec<Listener>,
    prober: Prober,
    probes: Probes,
    state: AppState,
    extended_routes: Vec<OpenApiRouter>,
    layers: LayerParts,
    workers: Vec<Worker>,
    shared: Shared,
    batch_pools: Vec<Database>,
    addresses: Vec<ListenAddress>,
    runtimes: Option<Runtimes>,
    /// The threads of the runtimes end when it is dropped.
    threads: DropGuard,
}

impl App {
    /// Builds every part and opens the listener. Neither database has to be reachable yet.
    ///
    /// # Errors
    /// A sentence for the operator: a URL that cannot be read, a port in use.
    pub fn build(config: Config) -> BoxFuture<'static, Result<Self, String>> {
        Self::build_with(config, extensions::ALL)
    }

    /// As [`Self::build`], on listeners that were passed to this process: `http.addr` is not used if there are some.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_on(
        config: Config,
        listeners: Vec<Listener>,
    ) -> BoxFuture<'static, Result<Self, String>> {
        Box::pin(Self::build_parts(config, extensions::ALL, listeners))
    }

    /// As [`Self::build`], with these extensions.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_with(
        config: Config,
        extensions: &'static [&'static Extension],
    ) -> BoxFuture<'static, Result<Self, String>> {
        Box::pin(Self::build_parts(config, extensions, Vec::new()))
    }

    async fn build_parts(
        config: Config,
        extensions: &[&Extension],
        mut listeners: Vec<Listener>,
    ) -> Result<Self, String> {
        let (shared, inboxes) = Shared::build(&config)?;
        let no_thread = |error: io::Error| format!("no thread for a runtime: {error}");
        let runtimes = config.http.runtimes.get();
        let end = CancellationToken::new();
        let threads = end.clone().drop_guard();
        let of_batches = Runtimes::start_batches(runtimes, &end).map_err(no_thread)?;
        let writers = Writers::build(&config, &shared, of_batches.as_ref());
        let lock_servers = LockServers::new(&config)?;
        let locks = locks::lock_sources(&config, &shared, &lock_servers)?;
        let (purchases, announcer) = purchases::purchases(&config, &shared, &writers, &locks)?;
        let use_cases = UseCases::beside(purchases, &config, &shared);
        let mut workers = workers::workers(&config, &shared, inboxes, &writers, &use_cases);
        workers.push(announcer);

        let addresses = listen(&config, &mut listeners)?;
        let runtimes = Runtimes::start(runtimes, &end).map_err(no_thread)?;
        let proxies = Proxies::parse(&config.http.trusted_proxies)?;
        let limits = &config.limits;
        let connection_limiter = ConnectionLimiter::new(
            limits.address_connections_max,
            proxies.clone(),
            limits.loopback_exempt,
        );
        let kit = state::kit(&config, &shared, &use_cases.accounts, proxies)?;
        let core = state::core(&config, &shared, &kit, &use_cases)?;
        let extended = ExtensionParts::build(extensions, &core, &config, &shared)?;
        let parts = state::parts(&config, &shared, lock_servers, use_cases, &extended)?;
        workers.extend(extended.workers);
        let layers = layers(&config, &shared, &addresses)?;
        let prober = prober::prober();
        Ok(Self {
            connection_limiter,
            listeners,
            prober: prober.0,
            probes: prober.1,
            state: AppState::new(kit, parts),
            extended_routes: extended.routes,
            layers,
            workers,
            shared,
            batch_pools: writers.batch_pools,
            addresses,
            runtimes,
            threads,
            config,
        })
    }

    /// The addresses of the listeners, with the real port if the configuration said 0.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// The address of TCP, if it listens on one.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addresses.iter().find_map(ListenAddress::tcp)
    }

    /// Asks this service whether it answers.
    pub fn prober(&self) -> Prober {
        self.prober.clone()
    }

    /// The wall clock of the service, which tests can move.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// The stop signal and the tasks.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.lifecycle.clone()
    }

    /// The connections to the ledger.
    pub fn pool(&self) -> Database {
        self.shared.pool.clone()
    }

    /// Serves until the lifecycle stops and everything has finished, or the bound is over.
    ///
    /// The future is boxed: so the whole service is compiled with this crate, and not once more
    /// with each program and test that serves.
    pub fn serve(self) -> BoxFuture<'static, StopResult> {
        Box::pin(self.run())
    }

    async fn run(self) -> StopResult {
        // To the end: the consumers of queued orders finish after the last purchase, and need batches and connections
        // that live on these threads.
        let _threads = self.threads;
        let Shared { lifecycle, metrics, pool, revocations, .. } = self.shared;
        for (name, work) in self.workers {
            lifecycle.worker(name, work);
        }
        // Before the first request is read: a token that was signed out must not work again here.
        let read = tokio::time::timeout(FIRST_READ_MAX, revocations.refresh());
        let _ = lifecycle.stopping().run_until_cancelled(read).await;
        if !revocations.was_read() {
            tracing::warn!("list of signed-out tokens not read yet: every token is refused");
        }
        let options = ServerOptions {
            connections_max: self.config.http.connections_max,
            head_timeout: Duration::from_millis(self.config.http.head_timeout_ms),
            connection_limiter: self.connection_limiter,
            write_timeout: Duration::from_millis(self.config.http.write_timeout_ms),
            runtimes: self.runtimes,
        };
        // The server owns every part from here on: they are dropped with it, and give the connections
        // back that the pools wait for.
        let application = http::application(
            self.state,
            self.extended_routes,
            &self.config.http.static_dir,
            self.layers,
        );
        let server = server::serve(
            self.listeners,
            self.probes,
            application,
            options,
            lifecycle.clone(),
            metrics,
        );
        let acceptor = tokio::spawn(server);
        let bound = Duration::from_millis(self.config.lifecycle.drain_ms);
        let ended = lifecycle.run_until_stopped(bound).await;
        acceptor.abort();
        let close = async {
            for batch_pool in self.batch_pools {
                batch_pool.close().await;
            }
            pool.close().await;
        };
        if tokio::time::timeout(CLOSE_MAX, close).await.is_err() {
            tracing::warn!("connections to the ledger still in use at the end");
        }
        ended
    }
}
