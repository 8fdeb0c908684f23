//! `/api/items/{id}/ticket`: the waiting room of an item that has one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::purchase::Purchases;
use crate::purchase::waiting_room::{Basis, Challenge, QueueStatus, Shown, Wait};
use shop_domain::Clock;
use web::body::OptionalJsonBody;
use web::extract::{Buyer, ItemPath};
use web::problem::Problem;

/// The queue token of a buyer, and the proof of work.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LineBody {
    /// The `place` of the last answer. Without it, the buyer keeps the place too; it counts when the
    /// service has lost its list.
    #[schema(max_length = 128)]
    place: Option<String>,
    /// The answer to a `challenge`, as ALTCHA's clients make it: Base64 of a JSON object with the
    /// challenge and its solution.
    #[schema(max_length = 2048)]
    altcha: Option<String>,
}

/// The position of a buyer in the queue, or the ticket.
#[derive(Default, Serialize, ToSchema)]
pub struct StandingBody {
    /// `waiting` or `admitted`.
    state: &'static str,
    /// While waiting: the queue token to send next time.
    place: Option<String>,
    /// The buyer's number in this line, from 1. It stays the same. Not known until the places of the buyers
    /// who came before the opening are drawn.
    number: Option<u64>,
    /// The number of buyers in front; before the places are drawn, of all others.
    position: u64,
    /// The number of buyers who wait.
    people: u64,
    /// The number of buyers who have a ticket and are not out again.
    inside: u64,
    /// Units that are left, at most a quarter of a second ago.
    available: i64,
    /// How long the wait will be, if that can be said.
    estimate_ms: Option<u64>,
    /// What the estimate follows from: `rate`, the buyers who are admitted per second; `exits`, the buyers
    /// who were admitted in the last ten seconds, because as many are inside as may be; or `opening`, the
    /// time to the opening alone.
    estimate_basis: Option<&'static str>,
    /// Whether the sale is open, and the places of the buyers who came before are being drawn.
    drawing: bool,
    /// While waiting: after how many milliseconds to ask again.
    ask_again_ms: u64,
    /// The work that a turn costs: about 2 to this power hashes.
    proof_bits: u8,
    /// While waiting, if a turn costs work: a challenge in ALTCHA's format. Any that was given in the last
    /// ten minutes can be answered, once.
    challenge: Option<Challenge>,
    /// When admitted: send it with the purchase as `Purchase-Ticket`.
    ticket: Option<String>,
    /// When admitted: the end of the ticket's validity.
    #[serde(with = "time::serde::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
}

impl StandingBody {
    fn new(status: QueueStatus, available: i64) -> Self {
        let available = available.max(0);
        let wait = match status {
            QueueStatus::Admitted { ticket, expires_at } => {
                return Self {
                    state: "admitted",
                    ticket: Some(ticket),
                    expires_at: Some(expires_at),
                    available,
                    ..Self::default()
                };
            }
            QueueStatus::Waiting(wait) => *wait,
        };
        let Wait { token, number, position, people, inside, .. } = wait;
        let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            state: "waiting",
            place: Some(token),
            number,
            position,
            people,
            inside,
            available,
            estimate_ms: wait.estimate.map(|(span, _)| ms(span)),
            estimate_basis: wait.estimate.map(|(_, basis)| match basis {
                Basis::Opening => "opening",
                Basis::Rate => "rate",
                Basis::Exits => "exits",
            }),
            drawing: wait.is_drawing,
            ask_again_ms: ms(wait.ask_again),
            proof_bits: wait.proof_bits,
            challenge: wait.challenge,
            ticket: None,
            expires_at: None,
        }
    }
}

/// Join or poll the queue of an item. The first call takes a place, and later calls answer its
/// position; at the front of the queue, when the sale is open, the answer is a ticket.
#[utoipa::path(post, path = "/api/items/{id}/ticket", tag = "buyer", params(ItemPath),
    request_body(content = Option<LineBody>, description = "May be left out"),
    responses((status = 200, description = "The place in the queue, or the ticket", body = StandingBody)))]
pub async fn create(
    State(purchases): State<Purchases>,
    State(clock): State<Clock>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
    OptionalJsonBody(body): OptionalJsonBody<LineBody>,
) -> Result<Json<StandingBody>, Problem> {
    let shown = Shown { place: body.place.as_deref(), altcha: body.altcha.as_deref() };
    let (status, available) = purchases.join_or_poll(id, buyer.user, shown, clock.now()).await?;
    Ok(Json(StandingBody::new(status, available)))
}

/// Leave the queue of an item, and return all your tickets: the next buyer is admitted. A repetition has no
/// further effect.
#[utoipa::path(delete, path = "/api/items/{id}/ticket", tag = "buyer", params(ItemPath),
    responses((status = 204, description = "You are not in the queue")))]
pub async fn leave(
    State(purchases): State<Purchases>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
) -> Result<StatusCode, Problem> {
    purchases.leave_room(id, buyer.user).await?;
    Ok(StatusCode::NO_CONTENT)
}
