//! `POST /api/reservations`: an order of one or several items, all or none.

use std::collections::HashSet;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::fields::wanted_hold;
use super::purchase::{RequestTrace, answer_order, quantity};
use crate::http::problems;
use crate::purchase::{LineRequest, Lines, OrderRequest, Purchases, Source};
use shop_domain::order::LINES_MAX;
use shop_domain::{ItemId, RequestKey, Trace, UserId};
use web::body::{Integer, JsonBody};
use web::extract::{Buyer, IdempotencyKey};
use web::order_body::OrderBody;
use web::problem::Problem;

/// The body of a reservation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationBody {
    /// Each of another item, and all items in one ledger.
    #[schema(min_items = 1, max_items = 16)]
    pub(super) lines: Vec<ReservationLineBody>,
    /// How long the unpaid order keeps its units; at most, and if it is left out, as long as each of the items
    /// allows.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    pub(super) hold_seconds: Integer,
}

/// A line of a reservation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationLineBody {
    #[serde(deserialize_with = "Integer::deserialize")]
    #[schema(value_type = i64, minimum = 1)]
    item_id: Integer,
    /// Units, from 1 to 1000 and to the limit of the buyer; 1 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    quantity: Integer,
    /// For an item with a waiting room: the ticket of `POST /api/items/{id}/ticket`.
    ticket: Option<String>,
}

/// Reserve units of several items, all or none.
#[utoipa::path(post, path = "/api/reservations", tag = "buyer", params(
    ("Idempotency-Key" = Option<String>, Header, description = "Names the reservation: a retry with the same key does not buy twice", min_length = 1, max_length = 64),
    ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context); a traced reservation is answered with `traceresponse`"),
), request_body = ReservationBody, responses(
    (status = 201, description = "Sold; the order with all its lines is durable", body = OrderBody),
    (status = "4XX", description = "Nothing changed; `item_id` names the line that was refused. Or, with outcome unknown, an earlier request with the key is still running: send it again later"),
    (status = "5XX", description = "Nothing changed, try again; or, with outcome unknown, send the request again with the same key"),
))]
pub async fn reserve(
    State(purchases): State<Purchases>,
    request_trace: RequestTrace,
    buyer: Buyer,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody<ReservationBody>,
) -> Result<Response, Problem> {
    let span = request_trace.begin("POST /api/reservations");
    let order = body.into_request(buyer.user, key, span.trace())?;
    answer_order(&purchases, order, span).await
}

impl ReservationBody {
    /// Checks the lines.
    pub(super) fn into_request(
        self,
        buyer: UserId,
        key: Option<RequestKey>,
        trace: Trace,
    ) -> Result<OrderRequest, Problem> {
        if !(1..=usize::from(LINES_MAX)).contains(&self.lines.len()) {
            let detail = format!("Send 1 to {LINES_MAX} lines.");
            return Err(problems::LINES_OUT_OF_RANGE.detail(detail));
        }
        let mut items = HashSet::new();
        let mut lines = Lines::with_capacity(self.lines.len());
        for line in self.lines {
            let line = line.into_request()?;
            if !items.insert(line.item) {
                return Err(problems::DUPLICATE_ITEM.problem().member("item_id", line.item.get()));
            }
            lines.push(line);
        }
        let hold_seconds = wanted_hold(self.hold_seconds, "hold_seconds")?;
        let order = OrderRequest::new(buyer, lines, Source::Reservation, key, trace);
        Ok(OrderRequest { hold_seconds, ..order })
    }
}

impl ReservationLineBody {
    fn into_request(self) -> Result<LineRequest, Problem> {
        let id = |number| i64::try_from(number).ok().and_then(ItemId::new);
        let item = self.item_id.or(None, id, || {
            problems::OUT_OF_RANGE.detail("Send item_id as a whole number from 1.")
        })?;
        let quantity =
            quantity(self.quantity).map_err(|problem| problem.member("item_id", item.get()))?;
        Ok(LineRequest { item, quantity, ticket: self.ticket })
    }
}
