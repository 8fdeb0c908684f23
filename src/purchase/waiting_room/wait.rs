//! What a buyer who waits is told: the place, how long it will take, and what that follows from.

use std::time::Duration;

use time::OffsetDateTime;

use super::proof::Challenge;
use super::queue_token::QueueToken;
use super::{QueueStatus, WaitingRoom};
use gates::redis_store::room::{RoomStanding, RoomStatus};
use shop_domain::item::Phase;
use shop_domain::{Item, UserId};

/// The longest pause until a buyer asks again: the sale may be paused or edited meanwhile.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
/// The shortest pause until a buyer asks again.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(200);
/// The pause while the places are drawn. Buyers who waited for the opening come back spread over it.
const ASK_AGAIN_DRAWING: Duration = Duration::from_secs(2);
/// The pause of the next buyers while as many buyers are inside as the limit allows, and nobody has come out lately.
const ASK_AGAIN_NEXT: Duration = Duration::from_secs(1);
/// The number of these next buyers.
const NEXT_BUYERS: u64 = 100;

/// What a buyer who waits is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The queue token, to be shown next time, on any instance.
    pub token: String,
    /// The buyer's number in this room from 1; `None` until the places are drawn.
    pub number: Option<u64>,
    /// The number of buyers before this one; before the places are drawn, of all others.
    pub position: u64,
    pub people: u64,
    pub inside: u64,
    pub is_drawing: bool,
    /// How long it will take, and what that follows from.
    pub estimate: Option<(Duration, Basis)>,
    /// The pause until the next call.
    pub ask_again: Duration,
    /// Zero bits that the proof of work must have.
    pub proof_bits: u8,
    pub challenge: Option<Challenge>,
}

/// What an estimate follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The time to the opening alone: the places are not known.
    Opening,
    /// The rate of the settings.
    Rate,
    /// The buyers who were admitted in the last ten seconds, because as many are inside as may be.
    Exits,
}

impl WaitingRoom {
    /// Makes the answer for a buyer who waits; `shown` is a queue token of the buyer, and `now` the room's time.
    pub(super) fn waiting(
        &self,
        item: &Item,
        buyer: UserId,
        standing: &RoomStanding,
        shown: Option<(&str, QueueToken)>,
        now: OffsetDateTime,
    ) -> QueueStatus {
        let token = match shown {
            Some((text, token)) if is_of_stay(&token, standing) => text.to_owned(),
            _ => self.tickets.position(
                (item.id, buyer),
                standing.number,
                standing.proof_bits,
                now.max(item.window.starts_at()),
            ),
        };
        let is_closed = item.paused && item.window.phase(now) == Phase::Open;
        let estimate = self.estimate(standing, item, is_closed, now);
        let challenge = (standing.proof_bits > 0)
            .then(|| self.proofs.challenge((item.id, buyer), standing.proof_bits, now));
        let ask_again = match (standing.status, is_closed, estimate) {
            (RoomStatus::Drawing | RoomStatus::Behind, ..) => ASK_AGAIN_DRAWING,
            // The end of a pause is not known.
            (_, true, _) => ASK_AGAIN_MAX,
            (_, _, None) if standing.ahead < NEXT_BUYERS => ASK_AGAIN_NEXT,
            (_, _, None) => ASK_AGAIN_MAX,
            (RoomStatus::Early, _, Some((wait, _))) => {
                wait + ASK_AGAIN_DRAWING.mul_f64(rand::random::<f64>())
            }
            // Others may leave, so that the turn comes sooner.
            (_, _, Some((wait, _))) => wait / 2,
        };
        QueueStatus::Waiting(Box::new(Wait {
            token,
            number: standing.count(),
            position: standing.ahead,
            people: standing.people,
            inside: standing.inside,
            is_drawing: matches!(standing.status, RoomStatus::Drawing | RoomStatus::Behind),
            estimate,
            ask_again: ask_again.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX),
            proof_bits: standing.proof_bits,
            challenge,
        }))
    }

    fn estimate(
        &self,
        standing: &RoomStanding,
        item: &Item,
        is_closed: bool,
        now: OffsetDateTime,
    ) -> Option<(Duration, Basis)> {
        let limits = self.parts.room.limits();
        let to_opening = Duration::try_from(item.window.starts_at() - now).unwrap_or_default();
        let each = |admitted: f64, seconds: f64| {
            let turns = (standing.ahead + 1) as f64;
            Duration::try_from_secs_f64(turns * seconds / admitted).ok()
        };
        match (standing.status, is_closed) {
            (_, true) | (RoomStatus::Drawing | RoomStatus::Behind, _) => None,
            (RoomStatus::Early, _) => Some((to_opening, Basis::Opening)),
            _ if standing.inside >= u64::from(limits.inside_max) => {
                let admitted = standing.admitted_in_ten_seconds;
                let wait = (admitted > 0).then(|| each(admitted as f64, 10.0)).flatten();
                wait.map(|wait| (wait, Basis::Exits))
            }
            _ => each(limits.per_second.into(), 1.0).map(|wait| (to_opening + wait, Basis::Rate)),
        }
    }
}

/// Whether a queue token says what a new one would say.
fn is_of_stay(token: &QueueToken, standing: &RoomStanding) -> bool {
    (token.number, token.proof_bits) == (standing.number, standing.proof_bits)
}
