//! `/api/orders`: a buyer's own orders: list, find, pay, extend, cancel and give back.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::fields::wanted_hold;
use crate::http::outcomes::of_step;
use crate::http::problems;
use crate::order::{OrderPage, Orders};
use crate::payment::{Payable, Payments};
use crate::purchase::Purchases;
use lifecycle::Lifecycle;
use shop_domain::Order;
use shop_domain::order::Step;
use web::body::{Integer, OptionalJsonBody};
use web::detached;
use web::document::TryAgain;
use web::extract::{Buyer, OrderPath, QueryPairs};
use web::paging::Page;
use web::problem::Problem;

/// An order as its owner sees it.
#[derive(Serialize, ToSchema)]
pub struct OrderBody {
    /// A UUIDv7.
    id: String,
    /// The item of the first line.
    item_id: i64,
    user_id: i64,
    /// The units of the first line.
    quantity: u32,
    /// The price of all lines in minor units of the currency.
    amount_cents: i64,
    /// The currency of all lines (ISO 4217).
    currency: &'static str,
    /// One line for each item, in the order of the items' ids.
    lines: Vec<OrderLineBody>,
    /// `queued`, `pending`, `paid`, `cancelled`, `expired` or `rejected`.
    status: &'static str,
    /// The strategy of the purchase.
    strategy: String,
    /// The fencing token of the lock under which it was written.
    fence: Option<u64>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// The end of the hold of an unpaid order.
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
    /// By how many seconds the hold was extended; `null` if it was not.
    extended_seconds: Option<u32>,
    #[serde(with = "time::serde::rfc3339::option")]
    paid_at: Option<OffsetDateTime>,
    /// Where to pay, in the answer to a payment that is made elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkout_url: Option<String>,
    /// `true` if the order is paid on a page of the payment provider; only in the answer for one
    /// order.
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_elsewhere: Option<bool>,
}

/// A line of an order.
#[derive(Serialize, ToSchema)]
pub struct OrderLineBody {
    item_id: i64,
    quantity: u32,
    /// The price of the line's units in minor units of the currency.
    amount_cents: i64,
}

impl From<&Order> for OrderLineBody {
    fn from(line: &Order) -> Self {
        Self {
            item_id: line.item_id.get(),
            quantity: line.quantity.units(),
            amount_cents: line.amount.cents(),
        }
    }
}

impl From<Order> for OrderBody {
    fn from(order: Order) -> Self {
        Self {
            id: order.id.to_string(),
            item_id: order.item_id.get(),
            user_id: order.user_id.get(),
            quantity: order.quantity.units(),
            amount_cents: order.whole_amount().cents(),
            currency: order.currency.as_str(),
            lines: order.lines().map(OrderLineBody::from).collect(),
            status: order.status.as_str(),
            strategy: order.strategy,
            fence: order.fence,
            created_at: order.created_at,
            expires_at: order.expires_at,
            extended_seconds: order.extended_seconds,
            paid_at: order.paid_at,
            checkout_url: None,
            paid_elsewhere: None,
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
    /// `true` if orders may be missing, because a ledger or a Redis server does not answer.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    is_incomplete: bool,
}

/// The body of a step, which has no fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepBody {}

/// The body of an extension.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtensionBody {
    /// How much longer the unpaid order keeps its units; at most, and if it is left out, as long as each of the
    /// items allows.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    seconds: Integer,
}

/// List your orders.
#[utoipa::path(get, path = "/api/orders", tag = "buyer", params(
    ("limit" = Option<u32>, Query, description = "Orders of a page", minimum = 1, maximum = 200),
    ("before" = Option<uuid::Uuid>, Query, description = "The `next` of the page before"),
), responses(
    (status = 200, description = "A page, newest first", body = OrdersBody),
    (status = "4XX", description = "Not signed in, or a bad parameter"), TryAgain,
))]
pub async fn list(
    State(orders): State<Orders>,
    buyer: Buyer,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<OrdersBody>, Problem> {
    let page = Page::read(&pairs)?;
    let OrderPage { orders, is_incomplete } =
        orders.list(buyer.user, page.cursor, page.rows()).await?;
    let (orders, next) = page.cut(orders, |order| order.id.to_string());
    let orders = orders.into_iter().map(OrderBody::from).collect();
    Ok(Json(OrdersBody { orders, next, is_incomplete }))
}

/// Find an order.
#[utoipa::path(get, path = "/api/orders/{id}", tag = "buyer", params(OrderPath), responses(
    (status = 200, description = "The order", body = OrderBody),
    (status = "4XX", description = "Not signed in, or no such order of yours"), TryAgain,
))]
pub async fn find(
    State(orders): State<Orders>,
    State(payments): State<Payments>,
    buyer: Buyer,
    OrderPath(id): OrderPath,
) -> Result<Json<OrderBody>, Problem> {
    let found = orders.find(id, buyer.user).await?;
    let order = found.ok_or(&problems::ORDER_NOT_FOUND)?.into();
    Ok(Json(OrderBody { paid_elsewhere: (!payments.are_made_here()).then_some(true), ..order }))
}

/// Pay an order, or get the address of the page to pay it on. After the end of its hold this still
/// works while stock is left.
#[utoipa::path(post, path = "/api/orders/{id}/payment", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The paid order, or the unpaid one with `checkout_url`; a repeated payment has no further effect", body = OrderBody),
    (status = "4XX", description = "Nothing changed"),
    (status = "5XX", description = "Send the request again"),
))]
pub async fn pay(
    State(payments): State<Payments>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    OrderPath(id): OrderPath,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Json<OrderBody>, Problem> {
    let paid = detached(&lifecycle, async move { payments.pay(id, buyer.user).await }).await?;
    let Payable { order, checkout_url } = paid;
    Ok(Json(OrderBody { checkout_url, ..order.into() }))
}

/// Cancel an unpaid order; its units go back.
#[utoipa::path(post, path = "/api/orders/{id}/cancellation", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The cancelled order; a repeated cancellation has no further effect", body = OrderBody),
    (status = "4XX", description = "Nothing changed"),
    (status = "5XX", description = "Send the request again"),
))]
pub async fn cancel(request: ReturnRequest) -> Result<Json<OrderBody>, Problem> {
    return_units(request, Step::Cancel).await
}

/// Give a paid order back, where its items allow it; its units go back, and so does the money.
#[utoipa::path(post, path = "/api/orders/{id}/return", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The order, which is cancelled now; a repeated return has no further effect", body = OrderBody),
    (status = "4XX", description = "Nothing changed"),
    (status = "5XX", description = "Send the request again"),
))]
pub async fn give_back(request: ReturnRequest) -> Result<Json<OrderBody>, Problem> {
    return_units(request, Step::Return).await
}

/// Extend the hold of an unpaid order, once.
#[utoipa::path(post, path = "/api/orders/{id}/extension", tag = "buyer", params(OrderPath),
    request_body(content = Option<ExtensionBody>, description = "May be left out"), responses(
    (status = 200, description = "The order with its new expires_at; a repeated extension has no further effect", body = OrderBody),
    (status = "4XX", description = "Nothing changed"),
    (status = "5XX", description = "Send the request again"),
))]
pub async fn extend(
    State(orders): State<Orders>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    OrderPath(id): OrderPath,
    OptionalJsonBody(body): OptionalJsonBody<ExtensionBody>,
) -> Result<Json<OrderBody>, Problem> {
    let seconds = wanted_hold(body.seconds, "seconds")?;
    let step = Step::Extend(seconds);
    let extended =
        detached(
            &lifecycle,
            async move { orders.step(id, buyer.user, step).await.map_err(of_step) },
        );
    Ok(Json(extended.await?.into()))
}

/// The request of a step after which the units of an order may be bought again.
type ReturnRequest = (
    State<Orders>,
    State<Purchases>,
    State<Lifecycle>,
    Buyer,
    OrderPath,
    OptionalJsonBody<StepBody>,
);

async fn return_units(
    (State(orders), State(purchases), State(lifecycle), buyer, OrderPath(id), _): ReturnRequest,
    step: Step,
) -> Result<Json<OrderBody>, Problem> {
    let made = detached(&lifecycle, async move {
        let order = orders.step(id, buyer.user, step).await.map_err(of_step)?;
        order.lines().for_each(|line| purchases.item_changed(line.item_id));
        Ok::<_, Problem>(order)
    });
    Ok(Json(made.await?.into()))
}
