//! `GET /api/admin/items/{id}/live`: the figures of a running sale, which the operator's console
//! polls.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::catalog::{Catalog, SaleFigures, StockedItem};
use crate::purchase::Purchases;
use shop_domain::{Clock, Refusal};
use shop_metrics::Metrics;
use web::extract::{ItemPath, Operator};
use web::problem::Problem;

/// A sale at this moment.
#[derive(Serialize, ToSchema)]
pub struct LiveBody {
    item_id: i64,
    /// The instance that answers; counts of different instances cannot be compared.
    instance: String,
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
    /// Units of the sale: the first stock and all restocks, but for units that a long waiting list gets later.
    total: i64,
    /// Units left, by the ledger.
    available: i64,
    /// Units that are held for buyers who waited.
    offered: i64,
    /// Buyers who wait.
    waiting: i64,
    /// Units left by the Redis counter, if it is loaded.
    counter_available: Option<i64>,
    /// The counter minus the ledger: running purchases, or drift if it lasts.
    drift: Option<i64>,
    /// The orders in the ledger by status.
    orders: BTreeMap<&'static str, OrderCountBody>,
    /// Purchases of this item by outcome, as this instance has answered since its start.
    purchases: BTreeMap<&'static str, u64>,
    strategy: String,
    /// Orders of any item that this item's strategy accepted and the arbiter refused, on this
    /// instance since its start.
    arbiter_refusals: u64,
}

/// The orders of one status.
#[derive(Serialize, ToSchema)]
pub struct OrderCountBody {
    orders: i64,
    units: i64,
}

/// Show the figures of a running sale.
#[utoipa::path(get, path = "/api/admin/items/{id}/live", tag = "operator", params(ItemPath),
    responses((status = 200, description = "Stock, orders, outcomes and drift", body = LiveBody)))]
pub async fn find(
    State(catalog): State<Catalog>,
    State(purchases): State<Purchases>,
    State(metrics): State<Metrics>,
    State(clock): State<Clock>,
    State(instance): State<String>,
    _: Operator,
    ItemPath(id): ItemPath,
) -> Result<Json<LiveBody>, Problem> {
    let figures = catalog.figures(id).await?.ok_or(Refusal::ItemNotFound)?;
    let SaleFigures { stocked, orders, counter_available, waiting, offered } = figures;
    let StockedItem { item, total, available } = stocked;
    let orders = orders.into_iter().map(|(status, count)| {
        (status.as_str(), OrderCountBody { orders: count.orders, units: count.units })
    });
    let refused =
        gates::card(&item.strategy).map_or(0, |card| metrics.arbiter_refusals_of(card.name));
    Ok(Json(LiveBody {
        item_id: id.get(),
        instance,
        server_time: clock.now(),
        total,
        available,
        offered,
        waiting,
        counter_available,
        drift: counter_available.map(|counter| counter - available),
        orders: orders.collect(),
        purchases: purchases.outcome_counts().read(id),
        arbiter_refusals: refused,
        strategy: item.strategy.clone(),
    }))
}
