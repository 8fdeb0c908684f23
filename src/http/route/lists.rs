//! `GET /api/strategies`, `GET /api/locks`: the lists of strategies and locks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::purchase::Purchases;
use crate::readiness::Readiness;
use gates::Breaks;

/// A strategy's card.
#[derive(Serialize, ToSchema)]
pub struct StrategyBody {
    name: &'static str,
    family: &'static str,
    /// The store of the stock counter that the strategy checks.
    store: &'static str,
    /// Whether the strategy never oversells, even without the arbiter.
    safe: bool,
    /// When the strategy oversells without the arbiter: `never`, `alone` (on one instance) or
    /// `with_two_instances`.
    breaks_with: &'static str,
    /// Its way of deciding, in one sentence.
    summary: &'static str,
    breaks_when: &'static str,
    /// The servers that it needs besides MySQL.
    #[schema(value_type = Vec<String>)]
    needs: Vec<&'static str>,
    /// Whether they are configured here.
    available: bool,
    /// Whether an accepted answer means a durable order.
    durable_before_reply: bool,
    /// How safe an accepted order is before it is durable, by the settings of Redis; `null` when
    /// `durable_before_reply` is true.
    promise: Option<String>,
    /// The articles that it comes from, `S0` to `S4`, or `ours`.
    source: &'static str,
}

/// List the strategies.
#[utoipa::path(get, path = "/api/strategies", tag = "everyone",
    responses((status = 200, description = "Every strategy, in order", body = Vec<StrategyBody>)))]
pub async fn strategies(
    State(readiness): State<Arc<Readiness>>,
    State(purchases): State<Purchases>,
) -> Json<Vec<StrategyBody>> {
    let promise = readiness.redis_promise().await;
    let cards = purchases.strategies().cards();
    let bodies = cards.map(|(card, available)| StrategyBody {
        name: card.name,
        family: card.family,
        store: card.store,
        safe: card.is_safe(),
        breaks_with: match card.breaks_with {
            Breaks::Never => "never",
            Breaks::Alone => "alone",
            Breaks::WithTwoInstances => "with_two_instances",
        },
        summary: card.summary,
        breaks_when: card.breaks_when,
        needs: card.needs.iter().map(|server| server.as_str()).collect(),
        available,
        durable_before_reply: card.durable_before_reply,
        promise: (!card.durable_before_reply).then(|| promise.clone()),
        source: card.source,
    });
    Json(bodies.collect())
}

/// List the kinds of locks with their capabilities.
#[utoipa::path(get, path = "/api/locks", tag = "everyone",
    responses((status = 200, description = "The capabilities of each kind on each backend", body = Vec<serde_json::Value>)))]
pub async fn locks() -> Json<&'static [&'static leaselock::Capabilities]> {
    Json(leaselock::KINDS)
}
