//! Checks before `serve` sells. A finding that cannot heal by itself stops the start; one that can,
//! such as a server that is starting too, is waited for, and the log says for what.
//!
//! The service answers while it waits: `/healthz` says that it is alive, `/readyz` why it is not
//! ready. The ledger is waited for within a limit, since nothing can be sold without it. Redis is
//! waited for without one, since strategies without Redis sell meanwhile.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::config::Config;
use gates::redis_store::RedisClient;
use lifecycle::Lifecycle;
use mysql_connection::Database;
use tokio_util::sync::CancellationToken;

use super::check::{self, Finding, State, first};
use super::service_manager;

/// How long the start waits for the first findings; later ones come while the service answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// The pause before the servers are checked again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How often the log repeats what is waited for.
const REMINDER: Duration = Duration::from_secs(30);

/// Checks the service's own settings.
///
/// # Errors
/// A sentence for the operator.
pub fn settings(config: &Config) -> Result<(), String> {
    let findings = check::settings::check(config);
    blocker(&findings)?;
    log(&findings);
    Ok(())
}

/// How a start goes on.
#[derive(Clone, Default)]
pub struct Progress {
    /// Why a start that had to wait was given up, if it was.
    pub given_up: Arc<OnceLock<GivenUp>>,
    /// Fires when the ledger can be used.
    pub can_sell: CancellationToken,
}

/// Why a start was given up.
pub struct GivenUp {
    pub sentence: String,
    /// Whether another start may go well: the ledger was away for too long.
    pub may_heal: bool,
}

impl From<String> for GivenUp {
    fn from(sentence: String) -> Self {
        Self { sentence, may_heal: false }
    }
}

/// Checks the database and Redis. While one of them is not usable yet, a worker of `lifecycle` keeps
/// checking, and stops the service if a check fails or the ledger is waited for too long; then the
/// answer has the sentence.
///
/// # Errors
/// A sentence for the operator.
pub async fn servers(
    config: &Config,
    pool: Database,
    lifecycle: &Lifecycle,
) -> Result<Progress, String> {
    let progress = Progress::default();
    let start = Start {
        redis: RedisClient::new(config)?,
        config: config.clone(),
        pool,
        began: Instant::now(),
        can_sell: progress.can_sell.clone(),
    };
    let checked = tokio::time::timeout(ANSWER_TIMEOUT, start.check()).await;
    match checked {
        Ok(Ok(None)) => return Ok(progress),
        Ok(Ok(Some(waiting))) => waiting.log(),
        Ok(Err(sentence)) => return Err(sentence),
        Err(_) => {
            tracing::warn!("MySQL or Redis does not answer yet; its settings are checked later");
        }
    }
    let drained = lifecycle.drained();
    let stopping = lifecycle.clone();
    let told = Arc::clone(&progress.given_up);
    lifecycle.worker("preflight", async move {
        let checked = tokio::select! {
            checked = start.wait() => checked,
            () = drained.cancelled() => return,
        };
        if let Err(given_up) = checked {
            tracing::error!("{}", given_up.sentence);
            let _ = told.set(given_up);
            stopping.stop();
        }
        drained.cancelled().await;
    });
    Ok(progress)
}

/// A start that may have to wait for its servers.
struct Start {
    config: Config,
    pool: Database,
    redis: RedisClient,
    began: Instant,
    can_sell: CancellationToken,
}

/// Something that is waited for.
#[derive(PartialEq, Eq)]
struct Obstacle {
    sentence: String,
    is_ledger: bool,
}

impl Obstacle {
    fn log(&self) {
        tracing::warn!("waiting: {}", self.sentence);
        service_manager::tell_obstacle(&self.sentence);
    }
}

impl Start {
    /// Checks both servers once, and returns what is waited for, if anything is.
    async fn check(&self) -> Result<Option<Obstacle>, String> {
        let obstacle = self.find_obstacle().await?;
        if obstacle.as_ref().is_none_or(|obstacle| !obstacle.is_ledger) {
            self.can_sell.cancel();
        }
        Ok(obstacle)
    }

    async fn find_obstacle(&self) -> Result<Option<Obstacle>, String> {
        let (ledger, redis) = tokio::join!(
            check::mysql::check(&self.config, &self.pool),
            check::redis::check(&self.config, &self.redis),
        );
        for (findings, is_ledger) in [(&ledger, true), (&redis, false)] {
            if let Some(sentence) = blocker(findings)? {
                return Ok(Some(Obstacle { sentence, is_ledger }));
            }
        }
        log(&ledger);
        log(&redis);
        Ok(None)
    }

    /// Checks again and again until both servers can be used.
    async fn wait(&self) -> Result<(), GivenUp> {
        let limit = Duration::from_millis(self.config.lifecycle.start_wait_ms);
        let mut said: Option<(Obstacle, Instant)> = None;
        loop {
            tokio::time::sleep(RETRY_PAUSE.min(limit)).await;
            let Some(waiting) = self.check().await? else {
                tracing::info!("MySQL and Redis can be used now");
                return Ok(());
            };
            if waiting.is_ledger && self.began.elapsed() >= limit {
                let limit = limit.as_secs_f32();
                let sentence = format!("gave up after {limit} s: {}", waiting.sentence);
                return Err(GivenUp { sentence, may_heal: true });
            }
            let is_new = said
                .as_ref()
                .is_none_or(|(before, at)| *before != waiting || at.elapsed() >= REMINDER);
            if is_new {
                waiting.log();
                said = Some((waiting, Instant::now()));
            }
        }
    }
}

/// Returns what is waited for, if anything is.
///
/// # Errors
/// The finding that stops the start.
fn blocker(findings: &[Finding]) -> Result<Option<String>, String> {
    match first(findings, State::Failed) {
        Some(sentence) => Err(sentence),
        None => Ok(first(findings, State::Waiting)),
    }
}

/// Logs the settings of the ledger's engine, the shape of Redis, and the warnings.
fn log(findings: &[Finding]) {
    for finding in findings {
        match finding.state {
            State::Ok if finding.check == check::engine::CHECK => {
                tracing::info!("ledger: {}", finding.found);
            }
            State::Ok if finding.check == check::redis::SHAPE => {
                tracing::info!("Redis: {}", finding.found);
            }
            State::Warning => tracing::warn!("{}", finding.sentence()),
            _ => {}
        }
    }
}
