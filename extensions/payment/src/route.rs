//! Payments: paying an order, the provider's messages, and what operators see.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::message::Headers;
use crate::payments::Payments;
use crate::problems;
use extension::actor_of;
use ledger::order::refund::ByHand;
use ledger::rows::payments::Payment;
use shop_domain::payment::{PaymentId, PaymentStatus, RefundReason};
use web::body::{OptionalJsonBody, RawJson};
use web::detached;
use web::extract::{Buyer, Operator, OrderPath, QueryPairs};
use web::kit::Lifecycle;
use web::order_body::{OrderBody, StepBody};
use web::paging::Page;
use web::problem::Problem;
use web::rates::AddressRateCheck;

/// A message of the payment provider; further fields are left alone.
#[derive(Serialize, ToSchema)]
pub struct ProviderMessageBody {
    /// `payment.succeeded` or `refund.succeeded`; any other message is taken and changes nothing.
    r#type: String,
    /// The provider's id of the payment: 1 to 255 printable ASCII characters without spaces.
    payment: String,
    /// The order that the payment is for.
    order: String,
    /// The money that came or went back.
    amount_cents: i64,
    /// The currency (ISO 4217); without it the amount is in the shop's currency.
    currency: Option<String>,
    /// The provider's id of a refund: several messages about one count once. Printable ASCII characters without spaces.
    #[schema(max_length = 255)]
    refund: Option<String>,
}

/// What became of a message of the provider.
#[derive(Serialize, ToSchema)]
pub struct TakenBody {
    /// `paid`, `refund_wanted`, `refunded`, `partly_refunded` or `unchanged`.
    result: &'static str,
    /// Why the money has to go back.
    reason: Option<&'static str>,
}

/// A payment.
#[derive(Serialize, ToSchema)]
pub struct PaymentBody {
    /// The provider's id.
    id: String,
    /// The order; there may be none with this id. Zeros if the provider named no id of an order.
    order_id: String,
    /// The money that came; 0 while only a refund of it was told.
    amount_cents: i64,
    /// Its currency.
    currency: String,
    /// The money of it that went back, as far as it is known.
    refunded_cents: i64,
    /// `accepted`, `refund_wanted`, `refund_requested` or `refunded`.
    status: &'static str,
    /// Why it has to go back: `unknown_order`, `wrong_amount`, `wrong_currency`, `paid_twice`,
    /// `cancelled`, `rejected`, `sold_out` or `limit_reached`.
    reason: Option<&'static str>,
    /// Failed tries to tell the provider of the refund.
    failures: u32,
    last_error: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

/// A page of payments.
#[derive(Serialize, ToSchema)]
pub struct PaymentsBody {
    /// In the order of their ids.
    payments: Vec<PaymentBody>,
    /// Pass it as `after` to get the next page; `null` on the last one.
    next: Option<String>,
}

impl From<Payment> for PaymentBody {
    fn from(payment: Payment) -> Self {
        Self {
            id: payment.id.to_string(),
            order_id: payment.order.to_string(),
            amount_cents: payment.amount.cents(),
            currency: payment.currency.as_str().to_owned(),
            refunded_cents: payment.refunded.cents(),
            status: payment.status.as_str(),
            reason: payment.reason.map(RefundReason::as_str),
            failures: payment.failures,
            last_error: payment.last_error,
            created_at: payment.created_at,
            changed_at: payment.changed_at,
        }
    }
}

/// Pay an order, or get the address of the page to pay it on; one that costs nothing is paid at once. After the end of its hold this still
/// works while stock is left.
#[utoipa::path(post, path = "/api/orders/{id}/payment", tag = "buyer", params(OrderPath),
    request_body(content = Option<StepBody>, description = "May be left out"), responses(
    (status = 200, description = "The paid order, or the unpaid one with `checkout_url`; a repeated payment has no further effect", body = OrderBody),
))]
pub async fn pay(
    State(payments): State<Payments>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    OrderPath(id): OrderPath,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<Json<OrderBody>, Problem> {
    let paid = detached(&lifecycle, async move { payments.pay(id, buyer.user).await }).await?;
    let (order, checkout_url) = paid;
    let mut order: OrderBody = order.into();
    order.checkout_url = checkout_url;
    Ok(Json(order))
}

/// Take a message of the payment provider, signed as Standard Webhooks says.
#[utoipa::path(post, path = "/api/payments/messages", tag = "payment provider", params(
    ("webhook-id" = String, Header, description = "The id of the message; a repetition has the same"),
    ("webhook-timestamp" = String, Header, description = "Seconds since 1970, at most 300 away from now"),
    ("webhook-signature" = String, Header, description = "`v1,` and the HMAC-SHA256 of id, time stamp and body in base64; at most five, with a space between them"),
), request_body = ProviderMessageBody,
    responses((status = 200, description = "Taken; a repetition has no further effect", body = TakenBody)))]
pub async fn take(
    State(payments): State<Payments>,
    State(lifecycle): State<Lifecycle>,
    rate: AddressRateCheck,
    headers: HeaderMap,
    RawJson(body): RawJson,
) -> Result<Json<TakenBody>, Problem> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let headers = Headers {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signatures: text("webhook-signature"),
    };
    // On a task of its own, so that it finishes even when the provider hangs up.
    let taken = detached(&lifecycle, async move {
        rate.check()?;
        let taken = payments.take(headers, body, || rate.check().is_err()).await;
        // The provider may send as many messages as it likes: those that were forged are limited.
        if taken.as_ref().is_err_and(|error| error.counts()) {
            rate.count();
        }
        taken.map_err(Problem::from)
    });
    let (result, reason) = taken.await?;
    Ok(Json(TakenBody { result, reason: reason.map(RefundReason::as_str) }))
}

/// List payments.
#[utoipa::path(get, path = "/api/admin/payments", tag = "operator", params(
    ("status" = Option<String>, Query, description = "Only payments with this status"),
    ("limit" = Option<u32>, Query, description = "Payments of a page", minimum = 1, maximum = 200),
    ("after" = Option<String>, Query, description = "The `next` of the page before"),
), responses((status = 200, description = "A page", body = PaymentsBody)))]
pub async fn list(
    State(payments): State<Payments>,
    _: Operator,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<PaymentsBody>, Problem> {
    let (statuses, pairs): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(name, _)| name == "status");
    let wrong = || problems::INVALID_QUERY_PARAMETER.detail("Send one status that /docs names.");
    let status = match statuses.as_slice() {
        [] => None,
        [(_, status)] => Some(PaymentStatus::parse(status).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    };
    let page = Page::read(&pairs, "after", PaymentId::parse)?;
    let after = page.cursor.as_ref().map_or("", PaymentId::as_str);
    let ledger = &payments.core.ledger;
    let read = ledger::rows::payments::list(&ledger.pool, status, after, page.rows());
    let (payments, next) = page.cut(ledger.read(read).await?, |payment| payment.id.to_string());
    Ok(Json(PaymentsBody { payments: payments.into_iter().map(PaymentBody::from).collect(), next }))
}

/// Note that the money of a payment, which had to go back, went back by hand.
#[utoipa::path(post, path = "/api/admin/payments/{id}/refund", tag = "operator",
    params(("id" = String, Path, description = "The provider's id of the payment")),
    request_body(content = Option<StepBody>, description = "May be left out"),
    responses((status = 204, description = "Noted")))]
pub async fn refund(
    State(payments): State<Payments>,
    operator: Operator,
    Path(id): Path<String>,
    OptionalJsonBody(StepBody {}): OptionalJsonBody<StepBody>,
) -> Result<StatusCode, Problem> {
    let id = PaymentId::parse(&id).ok_or(&problems::PAYMENT_NOT_FOUND)?;
    match payments.refunded_by_hand(&id, &actor_of(&operator)).await? {
        ByHand::Noted => Ok(StatusCode::NO_CONTENT),
        ByHand::HasPaid => Err(problems::PAYMENT_ACCEPTED.problem()),
        ByHand::NotFound => Err(problems::PAYMENT_NOT_FOUND.problem()),
    }
}
