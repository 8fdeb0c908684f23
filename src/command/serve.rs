//! `seckill serve`: one instance of the service.

use std::path::Path;
use std::process::ExitCode;

use crate::app::App;
use lifecycle::StopResult;

use super::ExitResult;

/// Serves until a signal. Exit 0 after a clean stop, 1 after one that was cut short or a crash.
pub async fn run(file: Option<&Path>) -> ExitResult {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    super::preflight::settings(&config)?;
    let app = App::build(config.clone()).await?;
    let given_up = super::preflight::servers(&config, app.pool(), &app.lifecycle()).await?;
    tracing::info!("serving http://{}", app.addr());
    let ended = Box::pin(until_stopped(app)).await;
    match given_up.get() {
        Some(sentence) => Err(sentence.clone()),
        None => ended,
    }
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
        StopResult::Cut => Err("stopped before all work had finished; after an unknown outcome retry with the same key".to_owned()),
        StopResult::Crashed(worker) => Err(format!("the worker {worker:?} ended by itself")),
    }
}
