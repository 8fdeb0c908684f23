//! The job that measures how far endpoints are behind, and deletes old events.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use mysql_connection::Database;

use crate::metrics::EventMetrics;
use crate::sql::{deliveries, event_log};
use extension::job::Job;

/// Events that one statement deletes.
const FORGOTTEN_MAX: u32 = 1_000;
/// Statements of one run; further events wait for the next run.
const STATEMENTS_MAX: u32 = 50;
/// How long old events wait for an endpoint that was just created: its receiver learns the secret only then.
const NEW_MINUTES: u32 = 60;

/// The job that looks after the log of events.
pub struct TendEvents {
    pool: Database,
    metrics: EventMetrics,
    keep_hours: u32,
    /// The endpoints that have a metric.
    measured: Mutex<HashSet<i64>>,
}

impl TendEvents {
    /// The job for the ledger behind `pool`, which keeps events for `keep_hours`.
    pub fn new(pool: Database, metrics: EventMetrics, keep_hours: u32) -> Self {
        Self { pool, metrics, keep_hours, measured: Mutex::default() }
    }

    async fn measure(&self) -> ledger::Result<()> {
        let metrics = &self.metrics;
        metrics.waiting.set(event_log::waiting(&self.pool).await?);
        let lags = deliveries::lags(&self.pool).await?;
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let now: HashSet<i64> = lags.iter().map(|lag| lag.endpoint.get()).collect();
        for gone in measured.difference(&now) {
            metrics.forget(*gone);
        }
        for lag in lags {
            metrics.set_lag(lag.endpoint.get(), lag.events, lag.seconds);
        }
        *measured = now;
        Ok(())
    }

    async fn forget_old(&self) -> ledger::Result<u64> {
        let Some(last) = event_log::last_older_than(&self.pool, self.keep_hours).await? else {
            return Ok(0);
        };
        let to_new = deliveries::delivered_to_new(&self.pool, NEW_MINUTES).await?;
        let last = to_new.map_or(last, |delivered| last.min(delivered));
        let switched_off = deliveries::switch_off_behind(&self.pool, last).await?;
        if switched_off > 0 {
            tracing::error!(
                endpoints = switched_off,
                "event endpoints switched off: they were further behind than events are kept"
            );
        }
        let mut forgotten = 0;
        for _ in 0..STATEMENTS_MAX {
            let deleted = event_log::forget(&self.pool, last, FORGOTTEN_MAX).await?;
            forgotten += deleted;
            if deleted < FORGOTTEN_MAX.into() {
                break;
            }
        }
        Ok(forgotten)
    }
}

#[async_trait]
impl Job for TendEvents {
    async fn run(&self) -> Result<String, String> {
        self.measure().await.map_err(|error| error.to_string())?;
        let forgotten = self.forget_old().await.map_err(|error| error.to_string())?;
        Ok(format!("{forgotten} old events deleted"))
    }
}
