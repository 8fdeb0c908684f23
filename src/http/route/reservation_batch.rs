//! `POST /api/reservations/batch`: reservations for many guests of a shop, one a line, each answered for itself.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::ToSchema;

use super::purchase::placed;
use super::reservations::{ReservationBody, ReservationLineBody};
use crate::account::{Accounts, Guests};
use crate::http::problems;
use crate::purchase::{OrderRequest, Purchases};
use lifecycle::Lifecycle;
use shop_domain::{BuyerReference, Outcome, RequestKey, Trace};
use web::body::{Integer, JsonLines, parse};
use web::extract::{Shop, reference_of};
use web::layers::RequestId;
use web::order_body::OrderBody;
use web::problem::{Problem, ProblemBody};

/// The most reservations of one request.
const RESERVATIONS_MAX: usize = 256;

/// One reservation of a batch: a line of the body.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchLineBody {
    /// The shop's reference of the buyer: opaque, 1 to 255 printable ASCII characters without spaces. Limits count it like a user.
    #[schema(min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    buyer: String,
    /// The key of this reservation, as an `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]+$")]
    key: String,
    /// Each of another item, and all items in one ledger.
    #[schema(min_items = 1, max_items = 16)]
    lines: Vec<ReservationLineBody>,
    /// As for `POST /api/reservations`.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    hold_seconds: Integer,
}

/// The answer to one reservation of a batch: a line of the body.
#[derive(Serialize, ToSchema)]
pub struct BatchAnswerBody {
    /// The number of the line in the request, from 1.
    line: usize,
    /// The status that the reservation alone would be answered with.
    status: u16,
    /// `true` if an earlier request with the key has made the order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<OrderBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemBody<'static>>)]
    problem: Option<Box<RawValue>>,
}

/// Reserve for many guests of a shop. Each line is answered for itself, in the order of the request, as soon as it
/// and those before it are decided. After a lost connection send the same lines again.
#[utoipa::path(post, path = "/api/reservations/batch", tag = "shop",
    request_body(content = BatchLineBody, content_type = "application/x-ndjson", description = "1 to 256 lines, each a JSON object"), responses(
    (status = 200, description = "A line for each line of the request, each a JSON object", body = BatchAnswerBody, content_type = "application/x-ndjson"),
))]
pub async fn reserve_each(
    State(purchases): State<Purchases>,
    State(lifecycle): State<Lifecycle>,
    State(accounts): State<Accounts>,
    Shop(shop): Shop,
    JsonLines(bytes): JsonLines,
) -> Result<Response, Problem> {
    let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let lines: Vec<&[u8]> =
        bytes.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)).collect();
    if !(1..=RESERVATIONS_MAX).contains(&lines.len()) {
        let detail = format!("Send 1 to {RESERVATIONS_MAX} lines.");
        return Err(problems::LINES_OUT_OF_RANGE.detail(detail));
    }
    let lines: Vec<Result<Line, Problem>> = lines.into_iter().map(read_line).collect();
    let references = lines.iter().flatten().map(|line| line.buyer.clone()).collect();
    let guests = accounts.guests(shop, &references).await?;
    let answers: FuturesOrdered<_> = (1..)
        .zip(lines)
        .map(|(number, line)| {
            let purchases = purchases.clone();
            let request = line.and_then(|line| line.into_request(&guests));
            let answered = async move {
                let outcome = match request {
                    Ok(request) => Ok(purchases.order(request).await),
                    Err(problem) => Err(problem),
                };
                answer(number, outcome)
            };
            async move {
                // After a panic the ledger knows what became of the line.
                let unknown = |_| Err(problems::OUTCOME_UNKNOWN.problem().outcome_unknown());
                let ended = AssertUnwindSafe(answered).catch_unwind().await;
                ended.unwrap_or_else(|panic| answer(number, unknown(panic)))
            }
        })
        .collect();
    let (sender, receiver) = mpsc::channel(RESERVATIONS_MAX);
    // A task of its own, which goes on when the client leaves, or does not read.
    lifecycle.purchases().spawn(async move {
        // What is decided together is sent together.
        let mut answers = answers.ready_chunks(RESERVATIONS_MAX);
        while let Some(decided) = answers.next().await {
            // Nobody waits here: there is room for all lines.
            let _ = sender.send(Ok::<_, Infallible>(decided.concat())).await;
        }
    });
    let head = [(CONTENT_TYPE, "application/x-ndjson")];
    Ok((head, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

/// One reservation, before its buyer is known.
struct Line {
    buyer: BuyerReference,
    key: RequestKey,
    reservation: ReservationBody,
}

impl Line {
    fn into_request(self, guests: &Guests) -> Result<OrderRequest, Problem> {
        let buyer = guests.get(&self.buyer).ok_or(&problems::INVALID_TOKEN)?;
        self.reservation.into_request(*buyer, Some(self.key), Trace::default())
    }
}

/// Reads one line.
fn read_line(line: &[u8]) -> Result<Line, Problem> {
    let BatchLineBody { buyer, key, lines, hold_seconds } = parse(line)?;
    let buyer = reference_of(&buyer)?;
    let key = RequestKey::parse(&key).ok_or(&problems::INVALID_IDEMPOTENCY_KEY)?;
    Ok(Line { buyer, key, reservation: ReservationBody { lines, hold_seconds } })
}

/// Writes one line.
fn answer(line: usize, outcome: Result<Outcome, Problem>) -> Vec<u8> {
    let replayed = matches!(outcome, Ok(Outcome::Replayed(_)));
    let body = match outcome.and_then(placed) {
        Ok((status, order)) => BatchAnswerBody {
            line,
            status: status.as_u16(),
            replayed,
            order: Some(order.into()),
            problem: None,
        },
        Err(problem) => {
            let id = RequestId::generate();
            let status = problem.status().as_u16();
            let request_id = id.as_str();
            tracing::debug!(request_id, line, code = problem.code(), "line of a batch failed");
            let written = String::from_utf8(problem.body(request_id)).unwrap_or_default();
            let problem = RawValue::from_string(written).ok();
            BatchAnswerBody { line, status, replayed: false, order: None, problem }
        }
    };
    let mut text = serde_json::to_vec(&body).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema;

    use super::*;

    #[test]
    fn the_description_names_the_lengths_that_are_taken() {
        let described = serde_json::to_value(BatchLineBody::schema()).expect("a schema");
        let length_max = |field: &str| &described["properties"][field]["maxLength"];
        assert_eq!(length_max("buyer"), BuyerReference::LENGTH_MAX);
        assert_eq!(length_max("key"), RequestKey::LENGTH_MAX);
    }
}
