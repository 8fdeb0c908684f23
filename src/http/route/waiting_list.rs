//! `/api/items/{id}/waiting`: a buyer's place in the waiting list of an item.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::purchase::{RequestTrace, answer_order};
use crate::purchase::{LineRequest, OrderRequest, Purchases, Source};
use crate::waiting_list::{LinePosition, WaitingLists};
use lifecycle::Lifecycle;
use shop_domain::{Clock, ItemId, Quantity};
use web::body::OptionalJsonBody;
use web::detached;
use web::extract::{Buyer, IdempotencyKey, ItemPath};
use web::order_body::{OrderBody, StepBody};
use web::problem::Problem;

/// A buyer's place in the waiting list of an item.
#[derive(Serialize, ToSchema)]
pub struct PlaceBody {
    item_id: i64,
    /// `none`; `waiting`; `offered`; then `accepted`, `lapsed` (not bought in time), `left` or `ended`
    /// (the sale is over, or was paused without being drawn).
    status: &'static str,
    /// While waiting: buyers in front.
    ahead: Option<u64>,
    #[serde(with = "time::serde::rfc3339::option")]
    joined_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    offered_at: Option<OffsetDateTime>,
    /// The end of the offer.
    #[serde(with = "time::serde::rfc3339::option")]
    offer_expires_at: Option<OffsetDateTime>,
    /// The order that the accepted offer became.
    order_id: Option<String>,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

impl PlaceBody {
    /// The standing of a buyer; `None` when the buyer never waited.
    pub fn new(item: ItemId, standing: Option<LinePosition>, now: OffsetDateTime) -> Self {
        let waiting = standing.as_ref().filter(|seen| seen.place.status.as_str() == "waiting");
        let ahead = waiting.map(|standing| standing.ahead);
        let place = standing.map(|standing| standing.place);
        Self {
            item_id: item.get(),
            status: place.as_ref().map_or("none", |place| place.status.as_str()),
            ahead,
            joined_at: place.as_ref().map(|place| place.joined_at),
            offered_at: place.as_ref().and_then(|place| place.offered_at),
            offer_expires_at: place.as_ref().and_then(|place| place.offer_expires_at),
            order_id: place.and_then(|place| place.order).map(|order| order.to_string()),
            server_time: now,
        }
    }
}

/// Wait for a unit of a sold-out item. Who joined first is offered the next unit that comes back. A
/// repetition answers the place that you have.
#[utoipa::path(post, path = "/api/items/{id}/waiting", tag = "buyer", params(ItemPath),
    request_body(content = Option<StepBody>, description = "May be left out"),
    responses((status = 200, description = "Your place", body = PlaceBody)))]
pub async fn join(
    State(lists): State<WaitingLists>,
    State(clock): State<Clock>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Json<PlaceBody>, Problem> {
    let buyer = buyer.user;
    let joined = detached(&lifecycle, async move { lists.join(id, buyer).await }).await?;
    Ok(Json(PlaceBody::new(id, Some(joined), clock.now())))
}

/// Find your place in the waiting list of an item. Changes are sent as events `waiting` of
/// `GET /api/orders/events`.
#[utoipa::path(get, path = "/api/items/{id}/waiting", tag = "buyer", params(ItemPath),
    responses((status = 200, description = "Your place, or what became of it", body = PlaceBody)))]
pub async fn find(
    State(lists): State<WaitingLists>,
    State(clock): State<Clock>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
) -> Result<Json<PlaceBody>, Problem> {
    let found = lists.find(id, buyer.user).await?;
    Ok(Json(PlaceBody::new(id, found, clock.now())))
}

/// Leave the waiting list of an item, or decline its offer. A repetition has no further effect.
#[utoipa::path(delete, path = "/api/items/{id}/waiting", tag = "buyer", params(ItemPath),
    responses((status = 204, description = "You do not wait")))]
pub async fn leave(
    State(lists): State<WaitingLists>,
    State(purchases): State<Purchases>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
) -> Result<StatusCode, Problem> {
    let buyer = buyer.user;
    if detached(&lifecycle, async move { lists.leave(id, buyer).await }).await? {
        purchases.item_changed(id);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Buy the unit that is offered to you. The rules are those of any purchase, the strategy is
/// `waiting-list`.
#[utoipa::path(post, path = "/api/items/{id}/waiting/purchase", tag = "buyer", params(
    ItemPath,
    ("Idempotency-Key" = Option<String>, Header, description = "Names the purchase: a retry with the same key does not buy twice", min_length = 1, max_length = 64),
), request_body(content = Option<StepBody>, description = "May be left out"),
    responses((status = 201, description = "Sold; the order is durable", body = OrderBody)))]
pub async fn accept(
    State(purchases): State<Purchases>,
    request_trace: RequestTrace,
    buyer: Buyer,
    ItemPath(id): ItemPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Response, Problem> {
    let span = request_trace.begin("POST /api/items/{id}/waiting/purchase");
    let line = LineRequest { item: id, quantity: Quantity::ONE, ticket: None };
    let order = OrderRequest::new(buyer.user, [line], Source::Offer, key, span.trace());
    answer_order(&purchases, order, span).await
}
