//! `/healthz`, `/readyz`, `/metrics`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::Web;
use crate::http::problem::rfc3339;
use crate::metrics::LockTime;

/// A sign of life.
#[derive(Serialize, ToSchema)]
pub struct AliveBody {
    /// Always `alive`.
    status: &'static str,
}

/// Whether this instance takes work, and what it sees around it.
#[derive(Serialize, ToSchema)]
pub struct ReadyBody {
    /// `ready`, `stopping`, or `schema is old`: run `seckill migrate`.
    status: &'static str,
    /// `ok`, or what is wrong. A lost dependency does not make an instance unready: it would
    /// make all of them unready at once, and what does not need it still works.
    dependencies: BTreeMap<&'static str, String>,
    /// What each background job did last.
    jobs: BTreeMap<&'static str, JobBody>,
}

/// The last run of a background job.
#[derive(Serialize, ToSchema)]
pub struct JobBody {
    ok: bool,
    said: String,
    ended_at: String,
}

/// Alive.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operator",
    responses((status = 200, description = "The event loop answers", body = AliveBody)),
)]
pub async fn alive() -> Json<AliveBody> {
    Json(AliveBody { status: "alive" })
}

/// Ready.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operator",
    responses(
        (status = 200, description = "Takes work", body = ReadyBody),
        (status = 503, description = "Stopping, or the schema is old", body = ReadyBody),
    ),
)]
pub async fn ready(State(web): State<Web>) -> Response {
    let probed = web.readiness.probe().await;
    let jobs = web.job_status.read().into_iter().map(|(name, run)| {
        let ended_at = rfc3339(run.ended_at);
        let (ok, said) = run.result.map_or_else(|error| (false, error), |did| (true, did));
        (name, JobBody { ok, said, ended_at })
    });
    let status = match (web.lifecycle.is_stopping(), probed.schema_is_current) {
        (true, _) => "stopping",
        (false, Some(false)) => "schema is old",
        (false, _) => "ready",
    };
    let body = ReadyBody { status, dependencies: probed.dependencies, jobs: jobs.collect() };
    let ready = status == "ready";
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// Metrics for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operator",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text")),
)]
pub async fn metrics(State(web): State<Web>) -> Response {
    for lock in &web.lock_stats {
        let (kind, stats) = (lock.capabilities(), lock.stats().snapshot());
        for (event, count) in stats.counters() {
            web.metrics.lock_counted(kind.kind, kind.backend, event, count);
        }
        for (what, times) in [
            (LockTime::Wait, stats.wait),
            (LockTime::Hold, stats.hold),
            (LockTime::RenewalLag, stats.renewal_lag),
        ] {
            let all = (times.count(), times.sum_us);
            web.metrics.lock_took(kind.kind, kind.backend, what, times.below_us(), all);
        }
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], web.metrics.render()).into_response()
}
