//! `/healthz`, `/readyz`, `/metrics`, and the state of the service for the console.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::Locks;
use crate::readiness::Readiness;
use extension::job::JobStatus;
use lifecycle::Lifecycle;
use shop_metrics::{LockTime, Metrics};
use web::extract::Operator;
use web::problem::rfc3339;

/// The status of an instance that takes requests.
const READY: &str = "ready";

/// The answer of a process that runs.
#[derive(Serialize, ToSchema)]
pub struct AliveBody {
    /// Always `alive`.
    status: &'static str,
}

/// Whether this instance takes requests, and the state of its dependencies and jobs.
#[derive(Serialize, ToSchema)]
pub struct ReadyBody {
    /// `ready`, `stopping`, `schema is missing` or `schema is old` (run `seckill migrate`), or
    /// `schema is too new` (start a newer build).
    status: &'static str,
    /// `ok`, or the fault of each dependency. `mysql_replication` is there if the ledger has
    /// replicas: `asynchronous: ...` while none of them acknowledges commits. A lost dependency does not make an instance unready:
    /// all instances would become unready at once, also for requests that do not need it.
    dependencies: BTreeMap<String, String>,
    /// How the ledger is replicated, for example `Vitess, 2 of 2 primaries serve, a commit waits for a replica, no
    /// procedures`; `null` when it does not answer.
    ledger: Option<String>,
    /// What stands behind the address of Redis, for example `cluster, primaries: 3, replicas: 3`;
    /// `null` when it does not answer.
    redis: Option<String>,
    /// The last run of each background job.
    jobs: BTreeMap<&'static str, JobBody>,
}

/// The last run of a background job.
#[derive(Serialize, ToSchema)]
pub struct JobBody {
    ok: bool,
    said: String,
    ended_at: String,
}

/// Check liveness.
#[utoipa::path(get, path = "/healthz", tag = "operator",
    responses((status = 200, description = "The process runs", body = AliveBody)))]
pub async fn alive() -> Json<AliveBody> {
    Json(AliveBody { status: "alive" })
}

/// Check readiness.
#[utoipa::path(get, path = "/readyz", tag = "operator", responses(
    (status = 200, description = "The instance takes requests", body = ReadyBody),
    (status = 503, description = "Stopping, or the schema does not fit", body = ReadyBody),
))]
pub async fn ready(
    State(readiness): State<Arc<Readiness>>,
    State(job_status): State<JobStatus>,
    State(lifecycle): State<Lifecycle>,
) -> Response {
    let body = look(&readiness, &job_status, &lifecycle).await;
    let ready = body.status == READY;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// Read the state of the instance that answers, also behind a proxy that hides `/readyz`.
#[utoipa::path(get, path = "/api/admin/health", tag = "operator",
    responses((status = 200, description = "The state, whether the instance is ready or not", body = ReadyBody)))]
pub async fn health(
    State(readiness): State<Arc<Readiness>>,
    State(job_status): State<JobStatus>,
    State(lifecycle): State<Lifecycle>,
    _: Operator,
) -> Json<ReadyBody> {
    Json(look(&readiness, &job_status, &lifecycle).await)
}

async fn look(
    readiness: &Arc<Readiness>,
    job_status: &JobStatus,
    lifecycle: &Lifecycle,
) -> ReadyBody {
    let probed = readiness.probe().await;
    let jobs = job_status.read().into_iter().map(|(name, run)| {
        let ended_at = rfc3339(run.ended_at);
        let (ok, said) = run.result.map_or_else(|error| (false, error), |did| (true, did));
        (name, JobBody { ok, said, ended_at })
    });
    let status = match probed.schema {
        _ if lifecycle.is_stopping() => "stopping",
        Some(schema) if !schema.is_usable() => schema.as_str(),
        _ => READY,
    };
    let ledger = probed.ledger.map(|replication| replication.to_string());
    let redis = probed.redis.map(|topology| topology.to_string());
    ReadyBody { status, dependencies: probed.dependencies, ledger, redis, jobs: jobs.collect() }
}

/// Read the metrics.
#[utoipa::path(get, path = "/metrics", tag = "operator",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(locks): State<Locks>, State(metrics): State<Metrics>) -> Response {
    for lock in &locks {
        let kind = lock.capabilities();
        let stats = lock.stats().snapshot();
        for (event, count) in stats.counters() {
            metrics.lock_counted(kind.kind, kind.backend, event, count);
        }
        for (what, times) in [
            (LockTime::Wait, stats.wait),
            (LockTime::Hold, stats.hold),
            (LockTime::RenewalLag, stats.renewal_lag),
        ] {
            let count = times.count();
            let below_us = times.below_us();
            metrics.lock_took(kind.kind, kind.backend, what, below_us, count, times.sum_us);
        }
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], metrics.render()).into_response()
}
