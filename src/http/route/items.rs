//! `GET /api/items`, `GET /api/items/{id}`: what is on sale.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{Item, Refusal};
use crate::http::Web;
use crate::http::extract::ItemPath;
use crate::http::problem::{Problem, ProblemBody};
use crate::store::mysql::items::{self, StockedItem};

/// An item as everyone sees it.
#[derive(Serialize, ToSchema)]
pub struct ItemBody {
    id: i64,
    name: String,
    description: String,
    image_url: Option<String>,
    /// The price of one unit in cents.
    price_cents: i64,
    /// Units at the start and by restocks.
    total: i64,
    /// Units left.
    available: i64,
    #[serde(with = "time::serde::rfc3339")]
    starts_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    ends_at: OffsetDateTime,
    /// Units that one buyer may have.
    per_buyer_limit: u32,
    /// How long an unpaid order keeps its stock.
    hold_seconds: u32,
    /// What the strategy `default` stands for.
    strategy: String,
    /// `shop` or `lab`.
    kind: &'static str,
    /// `on` or `off`.
    arbiter: &'static str,
    /// Whether the operator has paused the sale.
    paused: bool,
    /// `upcoming`, `open`, `sold_out` or `ended`.
    state: &'static str,
    /// Compare your clock with it.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

impl ItemBody {
    /// An item as it is at `now`.
    #[must_use]
    pub fn new(stocked: &StockedItem, now: OffsetDateTime) -> Self {
        let item: &Arc<Item> = &stocked.item;
        Self {
            id: item.id.get(),
            name: item.name.clone(),
            description: item.description.clone(),
            image_url: item.image_url.clone(),
            price_cents: item.price.cents(),
            total: stocked.total,
            available: stocked.available,
            starts_at: item.window.starts_at(),
            ends_at: item.window.ends_at(),
            per_buyer_limit: item.per_buyer_limit,
            hold_seconds: item.hold_seconds,
            strategy: item.strategy.clone(),
            kind: item.kind.word(),
            arbiter: item.arbiter.word(),
            paused: item.paused,
            state: item.state(stocked.available, now).word(),
            server_time: now,
        }
    }
}

/// A list of items.
#[derive(Serialize, ToSchema)]
pub struct ItemsBody {
    /// The sales that are coming, open, or ended today.
    items: Vec<ItemBody>,
    /// Compare your clock with it.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

/// The sales of the shop.
#[utoipa::path(
    get,
    path = "/api/items",
    tag = "everyone",
    responses(
        (status = 200, description = "Soonest end first", body = ItemsBody),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn list(State(web): State<Web>) -> Result<Json<ItemsBody>, Problem> {
    let now = web.clock.now();
    let listed =
        items::list_shop(&web.pool, now).await.map_err(|error| Problem::database(&error))?;
    let items = listed.iter().map(|stocked| ItemBody::new(stocked, now)).collect();
    Ok(Json(ItemsBody { items, server_time: now }))
}

/// One item.
#[utoipa::path(
    get,
    path = "/api/items/{id}",
    tag = "everyone",
    params(("id" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The item", body = ItemBody),
        (status = "4XX", description = "No such item", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn find(State(web): State<Web>, ItemPath(id): ItemPath) -> Result<Response, Problem> {
    let found = items::find(&web.pool, id).await.map_err(|error| Problem::database(&error))?;
    let stocked = found.ok_or(Refusal::ItemNotFound)?;
    Ok(answer(&stocked, web.clock.now()))
}

/// An item with its entity tag.
#[must_use]
pub fn answer(stocked: &StockedItem, now: OffsetDateTime) -> Response {
    let tag = format!("\"{}\"", stocked.item.revision);
    ([(ETAG, tag)], Json(ItemBody::new(stocked, now))).into_response()
}
