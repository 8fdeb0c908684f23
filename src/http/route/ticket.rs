//! `POST /api/items/{id}/ticket`: the queue of an item that has a waiting room.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::http::body::OptionalJsonBody;
use crate::http::document::TryAgain;
use crate::http::extract::{Buyer, ItemPath};
use crate::http::problem::Problem;
use crate::purchase::Purchases;
use crate::purchase::waiting_room::QueueStatus;
use shop_domain::Clock;

/// The queue token of a buyer, and the proof of work.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LineBody {
    /// The `place` of the last answer. Without it, the one that this instance remembers, or a new
    /// one.
    #[serde(default)]
    #[schema(max_length = 128)]
    place: Option<String>,
    /// The proof of work: a text for which SHA-256 of `place:proof` begins with `proof_bits` zero
    /// bits. Leave it out when `proof_bits` is 0.
    #[serde(default)]
    #[schema(max_length = 32)]
    proof: Option<String>,
}

/// The position of a buyer in the queue, or the ticket.
#[derive(Serialize, ToSchema)]
pub struct StandingBody {
    /// `waiting` or `admitted`.
    state: &'static str,
    /// While waiting: the queue token to send next time.
    place: Option<String>,
    /// The number of buyers in front.
    position: u64,
    /// While waiting: after how many milliseconds to ask again.
    ask_again_ms: u64,
    /// The zero bits that the proof of work must have at admission.
    proof_bits: u8,
    /// When admitted: send it with the purchase as `Purchase-Ticket`.
    ticket: Option<String>,
    /// When admitted: the end of the ticket's validity.
    #[serde(with = "time::serde::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
}

/// Join or poll the queue of an item. The first call takes a place, and later calls answer its
/// position; at the front of the queue, when the sale is open, the answer is a ticket.
#[utoipa::path(post, path = "/api/items/{id}/ticket", tag = "buyer", params(ItemPath),
    request_body(content = Option<LineBody>, description = "May be left out"), responses(
    (status = 200, description = "The place in the queue, or the ticket", body = StandingBody),
    (status = "4XX", description = "No waiting room, no proof of work, or the place of another buyer"), TryAgain,
))]
pub async fn create(
    State(purchases): State<Purchases>,
    State(clock): State<Clock>,
    Buyer(claims): Buyer,
    ItemPath(id): ItemPath,
    OptionalJsonBody(body): OptionalJsonBody<LineBody>,
) -> Result<Json<StandingBody>, Problem> {
    let shown = (body.place.as_deref(), body.proof.as_deref());
    let now = clock.now();
    Ok(Json(match purchases.join_or_poll(id, claims.user, shown, now).await? {
        QueueStatus::Waiting { token: place, position, ask_again, proof_bits } => StandingBody {
            state: "waiting",
            place: Some(place),
            position,
            ask_again_ms: u64::try_from(ask_again.as_millis()).unwrap_or(u64::MAX),
            proof_bits,
            ticket: None,
            expires_at: None,
        },
        QueueStatus::Admitted { ticket, expires_at } => StandingBody {
            state: "admitted",
            place: None,
            position: 0,
            ask_again_ms: 0,
            proof_bits: 0,
            ticket: Some(ticket),
            expires_at: Some(expires_at),
        },
    }))
}
