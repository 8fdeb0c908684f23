//! `GET /api/admin/items/{id}/live`: a sale at this moment, for the operator's console to ask again
//! and again.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::Refusal;
use crate::http::Web;
use crate::http::extract::{Admin, ItemPath};
use crate::http::problem::{Problem, ProblemBody};
use crate::store::mysql::{items, orders};
use crate::strategy;

/// A sale at this moment.
#[derive(Serialize, ToSchema)]
pub struct LiveBody {
    item_id: i64,
    /// Names the instance that answers: what it counted cannot be compared with another's.
    instance: String,
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
    /// Units at the start and by restocks.
    total: i64,
    /// Units left, by the ledger.
    available: i64,
    /// Units left by the Redis counter, if it is loaded.
    counter_available: Option<i64>,
    /// The counter less the ledger: purchases on their way, or drift if it stays.
    drift: Option<i64>,
    /// The orders in the ledger by status.
    orders: BTreeMap<&'static str, OrderCountBody>,
    /// Purchases of this item by outcome: what this instance answered since its start.
    purchases: BTreeMap<&'static str, u64>,
    strategy: String,
    /// Writes that a gate of this item's strategy let through and the arbiter refused, on this
    /// instance since its start, whatever the item.
    arbiter_refusals: u64,
}

/// The orders of one status.
#[derive(Serialize, ToSchema)]
pub struct OrderCountBody {
    orders: i64,
    units: i64,
}

/// Look at a sale.
#[utoipa::path(
    get,
    path = "/api/admin/items/{id}/live",
    tag = "operator",
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "Stock, orders, outcomes and drift", body = LiveBody),
        (status = "4XX", description = "Not an operator, or no such item", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn find(
    State(web): State<Web>,
    Admin(_operator): Admin,
    ItemPath(id): ItemPath,
) -> Result<Json<LiveBody>, Problem> {
    let found = web.ask(items::find(&web.pool, id)).await?;
    let items::StockedItem { item, total, available } = found.ok_or(Refusal::ItemNotFound)?;
    let counted = web.ask(orders::count_by_status(&web.pool, id)).await?;
    let counter = web.counters.peek(id).await.ok().flatten().map(|counter| counter.available);
    let orders = counted.into_iter().map(|(status, count)| {
        (status.as_str(), OrderCountBody { orders: count.orders, units: count.units })
    });
    let refused =
        strategy::card(&item.strategy).map_or(0, |card| web.metrics.arbiter_refusals_of(card.name));
    Ok(Json(LiveBody {
        item_id: id.get(),
        instance: web.instance.clone(),
        server_time: web.clock.now(),
        total,
        available,
        counter_available: counter,
        drift: counter.map(|counter| counter - available),
        orders: orders.collect(),
        purchases: web.purchases.tally().read(id),
        arbiter_refusals: refused,
        strategy: item.strategy.clone(),
    }))
}
