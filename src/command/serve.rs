//! `seckill serve`: one instance of the service.

use std::path::Path;
use std::process::ExitCode;

use crate::app::App;
use lifecycle::StopResult;
use web::listen_address::ListenAddress;
use web::listener::Listener;

use super::passed_sockets::PassedSockets;
use super::preflight::GivenUp;
use super::{ExitResult, refuse, service_manager};

/// Serves until a signal. Exit 0 after a clean stop; 1 after one that was cut short, after a crash, or if the ledger was
/// away for too long; 2 after a mistake that another start does not heal, so that systemd makes none.
pub async fn run(file: Option<&Path>, sockets: PassedSockets) -> ExitResult {
    let mut config = super::settings(file)?;
    super::start_logging(&config)?;
    let listeners = sockets.listeners()?;
    if let Some(address) = widest(&listeners)? {
        config.http.addr = address;
    }
    super::preflight::settings(&config)?;
    let app = App::build_on(config.clone(), listeners).await?;
    let start = super::preflight::servers(&config, app.pool(), &app.lifecycle()).await?;
    for address in app.addresses() {
        match address {
            ListenAddress::Tcp(address) => tracing::info!("serving http://{address}"),
            ListenAddress::Unix(_) => tracing::info!("serving {address}"),
        }
    }
    let stopping = app.lifecycle().stopping();
    let told = service_manager::tell(app.prober(), start.can_sell, stopping);
    let ended = tokio::select! {
        ended = Box::pin(until_stopped(app)) => ended,
        () = told => refuse("systemd is told nothing any more"),
    };
    match start.given_up.get() {
        Some(GivenUp { sentence, may_heal: true }) => refuse(sentence),
        Some(GivenUp { sentence, .. }) => Err(sentence.clone()),
        None => ended,
    }
}

/// The passed address that most others can reach: the settings are judged by it.
fn widest(listeners: &[Listener]) -> Result<Option<ListenAddress>, String> {
    let addresses: Result<Vec<_>, _> = listeners.iter().map(Listener::address).collect();
    let addresses = addresses.map_err(|error| error.to_string())?;
    Ok(addresses.into_iter().min_by_key(ListenAddress::is_loopback))
}

/// Serves until a signal; a second one stops hard.
pub async fn until_stopped(app: App) -> ExitResult {
    let lifecycle = app.lifecycle();
    let ended = tokio::select! {
        ended = app.serve() => ended,
        heard = lifecycle.second_signal() => {
            heard.map_err(|error| format!("signals cannot be heard: {error}"))?;
            StopResult::Cut
        }
    };
    match ended {
        StopResult::Clean => {
            tracing::info!("stopped after all accepted work was done");
            Ok(ExitCode::SUCCESS)
        }
        StopResult::Cut => refuse(
            "stopped before all work had finished; after an unknown outcome retry with the same key",
        ),
        StopResult::Crashed(worker) => {
            refuse(format_args!("the worker {worker:?} ended by itself"))
        }
    }
}
