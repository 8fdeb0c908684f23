//! `POST /api/seckill/{strategy}/{item_id}`: the purchase. Turns the request into buyer, item,
//! quantity and key, and the outcome into a response; nothing more.

use std::convert::Infallible;

use axum::Json;
use axum::extract::{FromRef, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tracing::Instrument;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OpenApi, RefOr};

use crate::purchase::{LineRequest, OrderRequest, Purchases, Source};
use gates::{Options, Scope, Store, WaitFor};
use shop_domain::trace::{Span, SpanKind, TraceContext};
use shop_domain::{Doubt, ItemId, Order, OrderStatus, Outcome, Quantity};
use shop_traces::Traces;
use web::body::{Integer, OptionalJsonBody};
use web::cross_site::mark_repeated;
use web::extract::{Buyer, IdempotencyKey, PurchaseTicket, QueryPairs};
use web::order_body::OrderBody;
use web::problem::Problem;
use web::problems;

const PATH: &str = "/api/seckill/{strategy}/{item_id}";

/// The response header of a traced request, as the draft of W3C Trace Context Level 3 has it.
const TRACE_RESPONSE: HeaderName = HeaderName::from_static("traceresponse");

/// The body of a purchase.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurchaseBody {
    /// Units, from 1 to 1000 and to the limit of the buyer; 1 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    quantity: Integer,
}

/// The trace that a request belongs to: its `traceparent` says which. One that cannot be read is left
/// out, as the standard says.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    traces: Traces,
    parent: Option<TraceContext>,
}

impl RequestTrace {
    /// Begins the span of the request.
    #[must_use]
    pub fn begin(&self, name: &'static str) -> Span {
        self.traces.begin(name, SpanKind::Server, self.parent)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestTrace
where
    Traces: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let mut values = parts.headers.get_all("traceparent").iter();
        let only = values.next().filter(|_| values.next().is_none());
        let parent = only.and_then(|value| TraceContext::parse(value.to_str().ok()?));
        Ok(Self { traces: Traces::from_ref(state), parent })
    }
}

/// Buy units of an item.
#[utoipa::path(post, path = PATH, tag = "buyer", params(
    ("strategy" = String, Path, description = "A name of /api/strategies, or default"),
    ("item_id" = i64, Path, description = "The item", minimum = 1),
    ("store" = Option<String>, Query, description = "Lock strategies: the counter that the lock guards; `mysql` if it is left out"),
    ("scope" = Option<String>, Query, description = "Lock strategies on lab items: what is locked"),
    ("wait" = Option<String>, Query, description = "Lock strategies on lab items: how a request waits for the lock; `notify` if it is left out"),
    ("Idempotency-Key" = Option<String>, Header, description = "Names the purchase: a retry with the same key does not buy twice", min_length = 1, max_length = 64),
    ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context); a traced purchase is answered with `traceresponse`"),
    ("Purchase-Ticket" = Option<String>, Header, description = "For items with a waiting room: the ticket of `POST /api/items/{id}/ticket`"),
), request_body(content = Option<PurchaseBody>, description = "May be left out"), responses(
    (status = 201, description = "Sold; the order is durable", body = OrderBody),
    (status = 202, description = "Accepted; the order becomes durable soon", body = OrderBody),
    (status = "4XX", description = "Nothing changed; or, with outcome unknown, an earlier request with the key is still running: send it again later"),
    (status = "5XX", description = "Nothing changed, try again; or, with outcome unknown, send the request again with the same key"),
))]
#[expect(clippy::too_many_arguments, reason = "each argument is an extractor")]
pub async fn purchase(
    State(purchases): State<Purchases>,
    request_trace: RequestTrace,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    buyer: Buyer,
    QueryPairs(pairs): QueryPairs,
    IdempotencyKey(key): IdempotencyKey,
    PurchaseTicket(ticket): PurchaseTicket,
    OptionalJsonBody(body): OptionalJsonBody<PurchaseBody>,
) -> Result<Response, Problem> {
    let Path((strategy, item)) = path.map_err(|_| &problems::INVALID_PATH_PARAMETER)?;
    let item = ItemId::parse(&item).ok_or(&problems::INVALID_PATH_PARAMETER)?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let options =
        Options::read(pairs).map_err(|error| problems::INVALID_QUERY_PARAMETER.detail(error.0))?;
    let quantity = quantity(body.quantity)?;
    let buyer = buyer.user;
    let span = request_trace.begin("POST /api/seckill/{strategy}/{item_id}");
    let trace = span.trace();
    let line = LineRequest { item, quantity, ticket };
    let source = Source::Stock { strategy, options };
    let order = OrderRequest::new(buyer, [line], source, key, trace);
    answer_order(&purchases, order, span).await
}

/// The units of a line; 1 if they are left out.
pub(super) fn quantity(units: Integer) -> Result<Quantity, Problem> {
    units.or(Some(Quantity::ONE), Quantity::new, || {
        problems::QUANTITY_OUT_OF_RANGE
            .detail(format!("Send a quantity of 1 to {}.", Quantity::MAX))
    })
}

/// Lists the words of the options in the document, as the code has them.
pub fn document_options(document: &mut OpenApi) {
    let purchase = document.paths.paths.get_mut(PATH).and_then(|path| path.post.as_mut());
    for parameter in purchase.and_then(|post| post.parameters.as_mut()).into_iter().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let words = match parameter.name.as_str() {
            "store" => Store::WORDS,
            "scope" => Scope::WORDS,
            "wait" => WaitFor::WORDS,
            _ => continue,
        };
        let schema =
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.to_vec()));
        parameter.schema = Some(schema.into());
    }
}

/// Answers with the outcome of an order, and ends the span of its request.
pub(super) async fn answer_order(
    purchases: &Purchases,
    order: OrderRequest,
    mut span: Span,
) -> Result<Response, Problem> {
    let item = order.lines[0].item;
    let log_span = order.trace.log_span();
    let outcome = purchases.order(order).instrument(log_span).await;
    let Some(context) = span.context() else { return answer(outcome) };
    span.set("item", item.get());
    span.set("outcome", outcome.as_str());
    let mut response = answer(outcome).into_response();
    let status = response.status();
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail();
    }
    let context = HeaderValue::try_from(context.to_string());
    response.headers_mut().extend(context.map(|value| (TRACE_RESPONSE, value)));
    Ok(response)
}

fn answer(outcome: Outcome) -> Result<Response, Problem> {
    let is_replayed = matches!(outcome, Outcome::Replayed(_));
    let (status, order) = placed(outcome)?;
    let location = [("location", format!("/api/orders/{}", order.id))];
    let mut response = (status, location, Json(OrderBody::from(order))).into_response();
    if is_replayed {
        mark_repeated(&mut response);
    }
    Ok(response)
}

/// The order that a request has made, with the status of the answer; or the outcome's problem.
pub(super) fn placed(outcome: Outcome) -> Result<(StatusCode, Order), Problem> {
    match outcome {
        Outcome::Sold(order) => Ok((StatusCode::CREATED, order)),
        Outcome::Queued(order) => Ok((StatusCode::ACCEPTED, order)),
        Outcome::Replayed(order) => {
            // A queued order was answered 202, and stays so if it is rejected later.
            let queued = matches!(order.status, OrderStatus::Queued | OrderStatus::Rejected);
            Ok((if queued { StatusCode::ACCEPTED } else { StatusCode::CREATED }, order))
        }
        Outcome::Refused(refusal) => Err(refusal.into()),
        Outcome::Unavailable(why) => Err(why.into()),
        Outcome::Unknown(Doubt::InProgress) => {
            Err(problems::REQUEST_IN_PROGRESS.problem().outcome_unknown())
        }
        Outcome::Unknown(_) => Err(problems::OUTCOME_UNKNOWN.problem().outcome_unknown()),
    }
}
