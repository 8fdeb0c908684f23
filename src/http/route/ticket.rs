//! `POST /api/items/{id}/ticket`: the line in front of an item that has a waiting room.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::http::Web;
use crate::http::body::OptionalJsonBody;
use crate::http::extract::{Buyer, ItemPath};
use crate::http::problem::{Problem, ProblemBody};
use crate::purchase::waiting_room::{Denied, QueueStatus};

/// What somebody in line shows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LineBody {
    /// The `place` of the last answer. Without it the place is the one that this instance
    /// remembers, or a new one.
    #[serde(default)]
    #[schema(max_length = 128)]
    place: Option<String>,
    /// Where `proof_bits` is not 0: text that makes SHA-256 of `place:proof` begin with so many zero
    /// bits.
    #[serde(default)]
    #[schema(max_length = 32)]
    proof: Option<String>,
}

/// How somebody stands.
#[derive(Serialize, ToSchema)]
pub struct StandingBody {
    /// `waiting` or `admitted`.
    state: &'static str,
    /// While waiting: show it next time.
    place: Option<String>,
    /// Turns that come first.
    position: u64,
    /// While waiting: when to ask again, in milliseconds.
    ask_again_ms: u64,
    /// Zero bits that the proof of work must have when the turn comes.
    proof_bits: u8,
    /// When admitted: send it with the purchase as `Purchase-Ticket`.
    ticket: Option<String>,
    /// Until when the ticket is good.
    #[serde(with = "time::serde::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
}

/// Stand in line. The first call takes a place, later ones tell how it moves; when its turn has come
/// and the sale is open, the answer is a ticket.
#[utoipa::path(
    post,
    path = "/api/items/{id}/ticket",
    tag = "buyer",
    params(("id" = i64, Path, minimum = 1)),
    request_body(content = Option<LineBody>, description = "May be left out"),
    responses(
        (status = 200, description = "The place in line, or the ticket", body = StandingBody),
        (status = "4XX", description = "Nothing to wait for, no proof of work, or a place that is not yours", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn create(
    State(web): State<Web>,
    Buyer(claims): Buyer,
    ItemPath(id): ItemPath,
    OptionalJsonBody(body): OptionalJsonBody<LineBody>,
) -> Result<Json<StandingBody>, Problem> {
    let shown = (body.place.as_deref(), body.proof.as_deref());
    let now = web.clock.now();
    Ok(Json(match web.purchases.join_or_poll(id, claims.user, shown, now).await? {
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

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Refused(refusal) => refusal.into(),
            Denied::Unavailable(why) => why.into(),
            Denied::NoProof { bits } => {
                let detail = format!("SHA-256 of place:proof must begin with {bits} zero bits.");
                Self::new(403, "challenge_failed", "Proof of work needed", detail)
                    .with("proof_bits", bits)
            }
        }
    }
}
