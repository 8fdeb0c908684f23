//! The bodies of orders, which several routes answer, and of their steps.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use shop_domain::Order;

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
    pub checkout_url: Option<String>,
    /// `true` if the order is paid on a page of the payment provider; only in the answer for one
    /// order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_elsewhere: Option<bool>,
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

/// The body of a step, which has no fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepBody {}
