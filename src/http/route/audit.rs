//! `GET /api/admin/items/{id}/audit`: the invariants of a sale, from the ledger.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::Refusal;
use crate::domain::audit::{self, Report};
use crate::http::Web;
use crate::http::extract::{Admin, ItemPath};
use crate::http::problem::{Problem, ProblemBody};
use crate::store::mysql::audit as ledger;
use crate::store::redis::Buckets;

/// The audit of one item.
#[derive(Serialize, ToSchema)]
pub struct AuditBody {
    item_id: i64,
    arbiter: &'static str,
    /// Whether no invariant is broken.
    clean: bool,
    total: i64,
    available: i64,
    /// Units of paid orders.
    sold: i64,
    /// Units of pending orders.
    held: i64,
    /// Units sold beyond the total.
    oversold: i64,
    orders: i64,
    /// Units left by the Redis counter, if it is loaded.
    redis_available: Option<i64>,
    /// Units of orders in the Redis queue, not in the ledger yet.
    redis_queued: i64,
    findings: Vec<FindingBody>,
}

/// One invariant.
#[derive(Serialize, ToSchema)]
pub struct FindingBody {
    /// `I1` to `I7`.
    invariant: &'static str,
    claim: &'static str,
    /// `null` when there was nothing to judge by.
    holds: Option<bool>,
    detail: String,
}

impl From<Report> for AuditBody {
    fn from(report: Report) -> Self {
        let (clean, oversold) = (report.is_clean(), report.units_oversold());
        let findings = report.findings.into_iter().map(|finding| FindingBody {
            invariant: finding.invariant,
            claim: finding.claim,
            holds: finding.holds,
            detail: finding.detail,
        });
        Self {
            item_id: report.facts.item_id.get(),
            arbiter: report.facts.arbiter.as_str(),
            clean,
            total: report.facts.total,
            available: report.facts.available,
            sold: report.facts.units_sold,
            held: report.facts.units_held,
            oversold,
            orders: report.facts.orders,
            redis_available: report.facts.redis_available,
            redis_queued: report.facts.redis_queued,
            findings: findings.collect(),
        }
    }
}

/// Audit a sale from the ledger.
#[utoipa::path(
    get,
    path = "/api/admin/items/{id}/audit",
    tag = "operator",
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The invariants, each with its figures", body = AuditBody),
        (status = "4XX", description = "Not an operator, or no such item", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Nothing could be read", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn find(
    State(web): State<Web>,
    Admin(_operator): Admin,
    ItemPath(id): ItemPath,
) -> Result<Json<AuditBody>, Problem> {
    let facts = web.ask(ledger::facts(&web.pool, id)).await?;
    let mut facts = facts.ok_or(Refusal::ItemNotFound)?;
    let seen = web.counters.peek_with_queue(id).await.ok().flatten();
    facts.redis_available = seen.map(|seen| seen.counter.available);
    facts.redis_queued = seen.map_or(0, |seen| seen.queued);
    let buckets = Buckets::beside(&web.counters).peek(id).await.ok().flatten();
    facts.redis_buckets = buckets.map(|parts| parts.iter().map(|part| part.available).sum());
    Ok(Json(audit::judge(facts).into()))
}
