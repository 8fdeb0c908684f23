//! `/api/orders`: one's own orders, paid and cancelled.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{Order, OrderId};
use crate::http::Web;
use crate::http::body::OptionalJsonBody;
use crate::http::error::order_not_found;
use crate::http::extract::{Buyer, OrderPath, QueryPairs, bad_query};
use crate::http::problem::{Problem, ProblemBody};
use crate::order::StepError;

/// Orders of one page, unless asked otherwise.
const PAGE_DEFAULT: u32 = 50;
/// The most orders of one page.
const PAGE_MAX: u32 = 200;

/// An order as its owner sees it.
#[derive(Serialize, ToSchema)]
pub struct OrderBody {
    /// A UUIDv7.
    id: String,
    item_id: i64,
    user_id: i64,
    quantity: u32,
    /// The price of all units in cents.
    amount_cents: i64,
    /// `queued`, `pending`, `paid`, `cancelled`, `expired` or `rejected`.
    status: &'static str,
    /// The strategy that let it through.
    strategy: String,
    /// The token of the lock under which it was written.
    fence: Option<u64>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// When the hold runs out.
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    paid_at: Option<OffsetDateTime>,
}

impl From<Order> for OrderBody {
    fn from(order: Order) -> Self {
        Self {
            id: order.id.to_string(),
            item_id: order.item_id.get(),
            user_id: order.user_id.get(),
            quantity: order.quantity.units(),
            amount_cents: order.amount.cents(),
            status: order.status.as_str(),
            strategy: order.strategy,
            fence: order.fence,
            created_at: order.created_at,
            expires_at: order.expires_at,
            paid_at: order.paid_at,
        }
    }
}

/// A page of orders.
#[derive(Serialize, ToSchema)]
pub struct OrdersBody {
    /// Newest first.
    orders: Vec<OrderBody>,
    /// Pass it as `before` to get the next page; `null` on the last one.
    next: Option<String>,
}

/// Nothing needs to be said about a step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepBody {}

/// One's own orders.
#[utoipa::path(
    get,
    path = "/api/orders",
    tag = "buyer",
    params(
        ("limit" = Option<u32>, Query, description = "Orders of a page", minimum = 1, maximum = 200),
        ("before" = Option<uuid::Uuid>, Query, description = "The `next` of the page before"),
    ),
    responses(
        (status = 200, description = "A page, newest first", body = OrdersBody),
        (status = "4XX", description = "Not signed in, or a bad parameter", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn list(
    State(web): State<Web>,
    Buyer(claims): Buyer,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<OrdersBody>, Problem> {
    let (limit, before) = page(&pairs)?;
    // One more than asked for tells whether there is a next page.
    let listed = web.orders.list(claims.user, before, limit + 1).await;
    let mut orders = listed.map_err(|error| Problem::database(&error))?;
    let more = orders.len() > limit as usize;
    orders.truncate(limit as usize);
    let next = orders.last().filter(|_| more).map(|order| order.id.to_string());
    Ok(Json(OrdersBody { orders: orders.into_iter().map(OrderBody::from).collect(), next }))
}

/// Limit and cursor of a page.
///
/// # Errors
/// 400 for any other parameter.
pub fn page(pairs: &[(String, String)]) -> Result<(u32, Option<OrderId>), Problem> {
    let (mut limit, mut before) = (None, None);
    for (name, value) in pairs {
        match name.as_str() {
            "limit" if limit.is_none() => {
                let number = value.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
                limit =
                    Some(number.ok_or_else(|| bad_query(format!("limit is 1 to {PAGE_MAX}.")))?);
            }
            "before" if before.is_none() => {
                let id = OrderId::parse(value);
                before =
                    Some(id.ok_or_else(|| bad_query("before is the next of the page before."))?);
            }
            _ => return Err(bad_query("The parameters are limit and before, each once.")),
        }
    }
    Ok((limit.unwrap_or(PAGE_DEFAULT), before))
}

/// One order.
#[utoipa::path(
    get,
    path = "/api/orders/{id}",
    tag = "buyer",
    params(("id" = uuid::Uuid, Path)),
    responses(
        (status = 200, description = "The order", body = OrderBody),
        (status = "4XX", description = "Not signed in, or no order of yours", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn find(
    State(web): State<Web>,
    Buyer(claims): Buyer,
    OrderPath(id): OrderPath,
) -> Result<Json<OrderBody>, Problem> {
    let found = web.orders.find(id, claims.user).await?;
    found.map(|order| Json(order.into())).ok_or_else(order_not_found)
}

/// Pay. After the hold ran out it still works while stock is left.
#[utoipa::path(
    post,
    path = "/api/orders/{id}/payment",
    tag = "buyer",
    params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<StepBody>, description = "May be left out"),
    responses(
        (status = 200, description = "The paid order; paying twice is paying once", body = OrderBody),
        (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Ask again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn pay(
    State(web): State<Web>,
    Buyer(claims): Buyer,
    OrderPath(id): OrderPath,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Json<OrderBody>, Problem> {
    let orders = web.orders.clone();
    let paid = detached(&web, async move { orders.pay(id, claims.user).await }).await?;
    Ok(Json(paid.into()))
}

/// Cancel an unpaid order; its units go back.
#[utoipa::path(
    post,
    path = "/api/orders/{id}/cancellation",
    tag = "buyer",
    params(("id" = uuid::Uuid, Path)),
    request_body(content = Option<StepBody>, description = "May be left out"),
    responses(
        (status = 200, description = "The cancelled order; cancelling twice is cancelling once", body = OrderBody),
        (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Ask again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn cancel(
    State(web): State<Web>,
    Buyer(claims): Buyer,
    OrderPath(id): OrderPath,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Json<OrderBody>, Problem> {
    let (orders, purchases) = (web.orders.clone(), web.purchases.clone());
    let cancelled = detached(&web, async move {
        let order = orders.cancel(id, claims.user).await?;
        purchases.item_changed(order.item_id).await;
        Ok(order)
    });
    Ok(Json(cancelled.await?.into()))
}

/// A step finishes even when its client has gone: a half-made one would keep a row locked until
/// the server notices.
async fn detached(
    web: &Web,
    step: impl Future<Output = Result<Order, StepError>> + Send + 'static,
) -> Result<Order, Problem> {
    let task = web.lifecycle.purchases().spawn(step);
    match task.await {
        Ok(stepped) => stepped.map_err(Into::into),
        Err(_) => Err(Problem::internal().outcome_unknown()),
    }
}
