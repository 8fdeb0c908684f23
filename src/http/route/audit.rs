//! `GET /api/admin/items/{id}/audit`: the invariants of a sale, from the ledger.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::audit::Auditor;
use shop_domain::Refusal;
use shop_domain::audit::Report;
use web::extract::{ItemPath, Operator};
use web::problem::Problem;

/// The audit of one item.
#[derive(Serialize, ToSchema)]
pub struct AuditBody {
    item_id: i64,
    arbiter: &'static str,
    /// Whether every invariant holds.
    clean: bool,
    total: i64,
    available: i64,
    /// Units that open offers hold for buyers who waited.
    offered: i64,
    /// Units of paid orders.
    sold: i64,
    /// Units of pending orders.
    held: i64,
    /// Units sold beyond the total.
    oversold: i64,
    orders: i64,
    /// Units left by the Redis counter; `null` if it is not loaded.
    redis_available: Option<i64>,
    /// Units of orders that are in the Redis queue and not yet in the ledger.
    redis_queued: i64,
    findings: Vec<FindingBody>,
}

/// One invariant.
#[derive(Serialize, ToSchema)]
pub struct FindingBody {
    /// Its name, such as `I1`.
    invariant: &'static str,
    claim: &'static str,
    /// Whether it holds; `null` when there was nothing to check.
    holds: Option<bool>,
    detail: String,
}

impl From<Report> for AuditBody {
    fn from(report: Report) -> Self {
        let clean = report.is_clean();
        let oversold = report.units_oversold();
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
            offered: report.facts.offered,
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
#[utoipa::path(get, path = "/api/admin/items/{id}/audit", tag = "operator", params(ItemPath),
    responses((status = 200, description = "The invariants, each with its figures", body = AuditBody)))]
pub async fn find(
    State(auditor): State<Auditor>,
    _: Operator,
    ItemPath(id): ItemPath,
) -> Result<Json<AuditBody>, Problem> {
    let report = auditor.audit(id).await?.ok_or(Refusal::ItemNotFound)?;
    Ok(Json(report.into()))
}
