//! `GET /api/items`, `GET /api/items/{id}`: the sales.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{AGE, ETAG};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::limit_groups::LimitGroupBody;
use super::variant::VariantBody;
use crate::catalog::{Catalog, CatalogRead, StockedItem};
use shop_domain::{ArbiterMode, Clock, Currency, Item, Refusal};
use web::extract::ItemPath;
use web::problem::Problem;

/// An item with its stock.
#[derive(Serialize, ToSchema)]
pub struct ItemBody {
    id: i64,
    name: String,
    description: String,
    image_url: Option<String>,
    /// The price of one unit in minor units of the currency: cents, or yen.
    price_cents: i64,
    /// The currency of the price (ISO 4217).
    currency: &'static str,
    /// Units of the sale: the first stock and all restocks, but for units that a long waiting list gets later.
    total: i64,
    /// Units left.
    available: i64,
    #[serde(with = "time::serde::rfc3339")]
    starts_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    ends_at: OffsetDateTime,
    /// Units that one buyer may have.
    per_buyer_limit: u32,
    /// After how many holds that expired unpaid a buyer may not hold again; 0: no limit.
    unpaid_max: u32,
    /// How long an unpaid order keeps its stock.
    hold_seconds: u32,
    /// The strategy of purchases that name `default`.
    strategy: String,
    /// `shop` or `lab`.
    kind: &'static str,
    /// `on` or `off`.
    arbiter: &'static str,
    /// Whether the operator has paused the sale.
    paused: bool,
    /// Whether a purchase needs a ticket, see `POST /api/items/{id}/ticket`.
    waiting_room: bool,
    /// For how many seconds an offer holds a unit for a buyer who waits; 0: nobody can wait.
    offer_seconds: u32,
    /// By how many seconds at most a buyer may extend the hold of an unpaid order, once; 0: not at all.
    extend_seconds: u32,
    /// For how many seconds after the payment a buyer may give an order back; 0: not at all.
    return_seconds: u32,
    /// `race`: who buys first gets the units; `draw`: buyers enter until `draw_closes_at`, and the units are offered in
    /// the order of places that are drawn.
    mode: &'static str,
    /// The end of the time in which buyers enter.
    #[serde(with = "time::serde::rfc3339::option")]
    draw_closes_at: Option<OffsetDateTime>,
    /// The group of items that share a limit.
    limit_group: Option<LimitGroupBody>,
    /// The product that it is a variant of, if it is one.
    product: Option<VariantBody>,
    /// `upcoming`, `open`, `sold_out` or `ended`.
    state: &'static str,
    /// Whether this is an older copy, because the ledger does not answer; the header `Age` has its
    /// age in seconds.
    stale: bool,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

impl ItemBody {
    /// An item as it is at `now`.
    pub fn new(stocked: &StockedItem, now: OffsetDateTime) -> Self {
        let item: &Arc<Item> = &stocked.item;
        Self {
            id: item.id.get(),
            name: item.name.clone(),
            description: item.description.clone(),
            image_url: item.image_url.clone(),
            price_cents: item.price.cents(),
            currency: item.currency.as_str(),
            total: stocked.total,
            available: stocked.available,
            starts_at: item.window.starts_at(),
            ends_at: item.window.ends_at(),
            per_buyer_limit: item.per_buyer_limit,
            unpaid_max: item.unpaid_max,
            hold_seconds: item.hold_seconds,
            strategy: item.strategy.clone(),
            kind: item.kind.as_str(),
            arbiter: item.arbiter.as_str(),
            paused: item.paused,
            waiting_room: item.waiting_room,
            offer_seconds: if item.arbiter == ArbiterMode::On { item.offer_seconds } else { 0 },
            extend_seconds: item.extend_seconds,
            return_seconds: item.return_seconds,
            mode: if item.draw.is_some() { "draw" } else { "race" },
            draw_closes_at: item.draw.map(|draw| draw.closes_at),
            limit_group: item.limit_group.as_ref().map(LimitGroupBody::from),
            product: item.variant.as_ref().map(VariantBody::from),
            state: item.state(stocked.available, now).as_str(),
            stale: false,
            server_time: now,
        }
    }
}

/// A list of items.
#[derive(Serialize, ToSchema)]
pub struct ItemsBody {
    /// The sales that are upcoming, open, or ended today.
    items: Vec<ItemBody>,
    /// The currency of the shop, which new items have that name none.
    currency: &'static str,
    /// Whether this is an older copy, because the ledger does not answer.
    stale: bool,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

/// List the sales of the shop.
#[utoipa::path(get, path = "/api/items", tag = "everyone",
    responses((status = 200, description = "The sales, soonest end first", body = ItemsBody)))]
pub async fn list(
    State(catalog): State<Catalog>,
    State(currency): State<Currency>,
    State(clock): State<Clock>,
) -> Result<Response, Problem> {
    let CatalogRead { value, age } = catalog.list_shop().await?;
    let now = clock.now();
    let stale = age.is_some();
    let body = |stocked| ItemBody { stale, ..ItemBody::new(stocked, now) };
    let items = value.iter().map(body).collect();
    let currency = currency.as_str();
    Ok(with_age(Json(ItemsBody { items, currency, stale, server_time: now }), age))
}

/// Find an item.
#[utoipa::path(get, path = "/api/items/{id}", tag = "everyone", params(ItemPath),
    responses((status = 200, description = "The item", body = ItemBody)))]
pub async fn find(
    State(catalog): State<Catalog>,
    State(clock): State<Clock>,
    ItemPath(id): ItemPath,
) -> Result<Response, Problem> {
    let CatalogRead { value, age } = catalog.find(id).await?;
    let stocked = value.ok_or(Refusal::ItemNotFound)?;
    let now = clock.now();
    if age.is_none() {
        return Ok(answer(&stocked, now));
    }
    // Without an entity tag: an older copy must not be the base of an edit.
    let body = ItemBody { stale: true, ..ItemBody::new(&stocked, now) };
    Ok(with_age(Json(body), age))
}

fn with_age(body: impl IntoResponse, age: Option<Duration>) -> Response {
    let age = age.map(|age| [(AGE, age.as_secs().to_string())]);
    (age, body).into_response()
}

/// An item with its entity tag.
pub fn answer(stocked: &StockedItem, now: OffsetDateTime) -> Response {
    let tag = format!("\"{}\"", stocked.item.revision);
    ([(ETAG, tag)], Json(ItemBody::new(stocked, now))).into_response()
}
