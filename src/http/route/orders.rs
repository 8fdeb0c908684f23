//! `/api/orders`: a buyer's own orders: list, find, extend, cancel and give back.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fields::wanted_hold;
use crate::http::problems;
use crate::order::{OrderError, OrderPage, Orders};
use crate::purchase::Purchases;
use extension::ports::PaidElsewhere;
use lifecycle::Lifecycle;
use shop_domain::OrderId;
use shop_domain::order::Step;
use web::body::{Integer, OptionalJsonBody};
use web::detached;
use web::extract::{Buyer, OrderPath, QueryPairs};
use web::order_body::{OrderBody, StepBody};
use web::paging::Page;
use web::problem::Problem;

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

/// The body of an extension.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtensionBody {
    /// How much longer the unpaid order keeps its units; at most, and if it is left out, as long as each of the
    /// items allows.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    seconds: Integer,
}

/// List your orders.
#[utoipa::path(get, path = "/api/orders", tag = "buyer", params(
    ("limit" = Option<u32>, Query, description = "Orders of a page", minimum = 1, maximum = 200),
    ("before" = Option<uuid::Uuid>, Query, description = "The `next` of the page before"),
), responses((status = 200, description = "A page, newest first", body = OrdersBody)))]
pub async fn list(
    State(orders): State<Orders>,
    buyer: Buyer,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<OrdersBody>, Problem> {
    let page = Page::read(&pairs, "before", OrderId::parse)?;
    let OrderPage { orders, is_incomplete } =
        orders.list(buyer.user, page.cursor, page.rows()).await?;
    let (orders, next) = page.cut(orders, |order| order.id.to_string());
    let orders = orders.into_iter().map(OrderBody::from).collect();
    Ok(Json(OrdersBody { orders, next, is_incomplete }))
}

/// Find an order.
#[utoipa::path(get, path = "/api/orders/{id}", tag = "buyer", params(OrderPath),
    responses((status = 200, description = "The order", body = OrderBody)))]
pub async fn find(
    State(orders): State<Orders>,
    State(PaidElsewhere(elsewhere)): State<PaidElsewhere>,
    buyer: Buyer,
    OrderPath(id): OrderPath,
) -> Result<Json<OrderBody>, Problem> {
    let found = orders.find(id, buyer.user).await?;
    let found = found.ok_or(&problems::ORDER_NOT_FOUND)?;
    let costs = found.whole_amount().cents() > 0;
    let mut order: OrderBody = found.into();
    order.paid_elsewhere = (elsewhere && costs).then_some(true);
    Ok(Json(order))
}

/// Cancel an unpaid order; its units go back.
#[utoipa::path(post, path = "/api/orders/{id}/cancellation", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The cancelled order; a repeated cancellation has no further effect", body = OrderBody),
))]
pub async fn cancel(request: ReturnRequest) -> Result<Json<OrderBody>, Problem> {
    return_units(request, Step::Cancel).await
}

/// Give a paid order back, where its items allow it; its units go back, and so does the money.
#[utoipa::path(post, path = "/api/orders/{id}/return", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The order, which is cancelled now; a repeated return has no further effect", body = OrderBody),
))]
pub async fn give_back(request: ReturnRequest) -> Result<Json<OrderBody>, Problem> {
    return_units(request, Step::Return).await
}

/// Extend the hold of an unpaid order, once.
#[utoipa::path(post, path = "/api/orders/{id}/extension", tag = "buyer", params(OrderPath),
    request_body(content = Option<ExtensionBody>, description = "May be left out"), responses(
    (status = 200, description = "The order with its new expires_at; a repeated extension has no further effect", body = OrderBody),
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
    let extended = detached(&lifecycle, async move { orders.step(id, buyer.user, step).await });
    Ok(Json(extended.await?.order.into()))
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
        let made = orders.step(id, buyer.user, step).await?;
        // None after a repetition, which brings nothing back.
        made.returned.iter().for_each(|units| purchases.item_changed(units.item));
        Ok::<_, OrderError>(made.order)
    });
    Ok(Json(made.await?.into()))
}
