//! The waiting room: one line in front of a sale for all instances, for items that have one.
//!
//! A buyer who joins gets a *number*, which Redis gives once (`gates::redis_store::room`), and a
//! *queue token*: the number, signed. When the turn comes, the buyer gets a *ticket*, without which
//! the item cannot be bought. Turns come at a rate, and while fewer are inside than may be: whoever
//! has bought, was refused for good, has left, or has a ticket that ran out, is out.
//!
//! **The opening.** Who joins before the sale opens has no number yet: at the opening a shuffle gives
//! each of them a place by chance (`opening.rs`). Who comes later stands behind.
//!
//! **State.** Redis alone has the numbers and the buyers inside, and its clock judges. A purchase asks
//! whether its ticket was given back; without Redis, the ticket's signature and this instance's clock
//! decide, so buyers who are inside go on. After Redis has lost its data, a buyer who shows a queue
//! token keeps its number.
//!
//! **Proof of work.** With `waiting_room.proof_bits_max` above 0, a turn costs a proof (`proof.rs`):
//! none in an empty room, and twice the work each time the line is twice as long. The price of a stay
//! is kept in Redis from the join on; what a buyer shows never makes it less.

mod opening;
mod proof;
mod queue_token;
mod tickets;
mod wait;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::Semaphore;

use gates::redis_store::Room;
use gates::redis_store::room::{Leaving, Left, RoomPoll, RoomStatus, ShownTicket};
use ledger::breaker::Breaker;
use proof::Proofs;
use shop_domain::outcome::Dependency;
use shop_domain::{Clock, Item, ItemId, Outcome, Refusal, Unavailable, UserId};
use shop_metrics::Metrics;

pub use proof::{Challenge, PAYLOAD_LENGTH_MAX};
pub use queue_token::{TOKEN_LENGTH_MAX, Tickets};
pub use wait::{Basis, Wait};

/// How long the room is kept after the sale, which may be prolonged.
const KEPT_AFTER_SALE: time::Duration = time::Duration::DAY;
/// Buyers that are taken out at once; when there are more, their tickets run out.
const EXITS_MAX: usize = 1_000;

pub struct WaitingRoomParts {
    pub room: Room,
    /// The breaker of Redis.
    pub breaker: Breaker,
    pub clock: Clock,
    pub metrics: Metrics,
}

/// The waiting rooms of all items. Clones share everything.
#[derive(Clone)]
pub struct WaitingRoom {
    parts: Arc<WaitingRoomParts>,
    pub(super) tickets: Tickets,
    proofs: Proofs,
    exits: Arc<Semaphore>,
    /// Items whose places are being written by this instance.
    drawing: Arc<Mutex<HashSet<ItemId>>>,
}

/// What a buyer shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// The queue token of an earlier answer.
    pub place: Option<&'a str>,
    /// The answer to a challenge, in ALTCHA's format.
    pub altcha: Option<&'a str>,
}

/// The status of a buyer in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStatus {
    /// Waiting: it is not the buyer's turn.
    Waiting(Box<Wait>),
    Admitted {
        /// The ticket, to be sent with the purchase.
        ticket: String,
        /// Until when the ticket is valid.
        expires_at: OffsetDateTime,
    },
}

/// The reason why a buyer gets neither a queue token nor a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The item cannot be bought, with or without a ticket.
    Refused(Refusal),
    /// The item has no waiting room.
    NoWaitingRoom,
    /// Not now: the queue is as long as it may be, or a server does not answer.
    Unavailable(Unavailable),
    /// The proof of work is missing or wrong, or was used already.
    NoProof(Box<Challenge>),
    /// Redis did not answer to a buyer who leaves, and who may be out.
    Unanswered,
}

const NO_REDIS: Denied = Denied::Unavailable(Unavailable::Dependency(Dependency::Redis));

impl WaitingRoom {
    /// Makes the waiting rooms. The first of `secrets` signs; a signature by any of them is accepted.
    pub fn new(parts: WaitingRoomParts, secrets: &[&str]) -> Self {
        let tickets = Tickets::new(secrets);
        let proofs = Proofs::new(&tickets);
        Self {
            parts: Arc::new(parts),
            tickets,
            proofs,
            exits: Arc::new(Semaphore::new(EXITS_MAX)),
            drawing: Arc::default(),
        }
    }

    /// Joins the queue of an item, or answers the position in it; gives the ticket when it is the
    /// buyer's turn.
    ///
    /// # Errors
    /// See [`Denied`].
    pub async fn join_or_poll(
        &self,
        item: &Item,
        buyer: UserId,
        shown: Shown<'_>,
        now: OffsetDateTime,
    ) -> Result<QueueStatus, Denied> {
        let place = match shown.place {
            Some(text) => self.tickets.place(text, item.id, buyer, now)?,
            None => None,
        };
        let poll = RoomPoll {
            item: item.id,
            buyer,
            window: item.window,
            paused: item.paused,
            shift: self.parts.clock.shifted(),
            shown: place.map(|place| (place.number, place.proof_bits)),
            proof: shown.altcha.and_then(|text| self.proofs.read(text, (item.id, buyer))),
            life: room_life(item, now),
        };
        let standing = self.ask(item.id, self.parts.room.poll(&poll)).await.ok_or(NO_REDIS)?;
        self.parts.metrics.waiting_room_left("expired", standing.expired);
        let now = from_ms(standing.now_ms);
        match standing.status {
            RoomStatus::Ended => Err(Denied::Refused(Refusal::SaleEnded)),
            RoomStatus::Full => Err(Denied::Unavailable(Unavailable::Overloaded)),
            RoomStatus::Unproved | RoomStatus::Replayed => {
                let challenge = self.proofs.challenge((item.id, buyer), standing.proof_bits, now);
                Err(Denied::NoProof(Box::new(challenge)))
            }
            RoomStatus::Admitted => {
                Ok(self.tickets.admitted(item.id, buyer, standing.ticket_ends_ms))
            }
            RoomStatus::Early | RoomStatus::Drawing | RoomStatus::Behind | RoomStatus::Waiting => {
                if matches!(standing.status, RoomStatus::Drawing | RoomStatus::Behind) {
                    self.draw_places(item);
                }
                Ok(self.waiting(item, buyer, &standing, shown.place.zip(place), now))
            }
        }
    }

    /// Takes a buyer out of the room, who leaves.
    ///
    /// # Errors
    /// When Redis does not answer; the buyer may be out.
    pub async fn leave(&self, item: ItemId, buyer: UserId) -> Result<(), Denied> {
        if self.parts.breaker.is_open() {
            return Err(NO_REDIS);
        }
        let shift = self.parts.clock.shifted();
        let leaving = self.parts.room.leave(item, buyer, Leaving::GivesBack, shift);
        if self.ask(item, leaving).await.ok_or(Denied::Unanswered)? != Left::Nowhere {
            self.parts.metrics.waiting_room_left("left", 1);
        }
        Ok(())
    }

    /// Counts the exit of a buyer whose purchase had this outcome, beside the purchase. An exit that is
    /// missed is made up for when the ticket runs out.
    pub fn purchase_ended(&self, item: &Item, buyer: UserId, outcome: &Outcome) {
        let Some(reason) = reason_of_exit(item.id, outcome).filter(|_| item.waiting_room) else {
            return;
        };
        let Ok(permit) = Arc::clone(&self.exits).try_acquire_owned() else { return };
        let parts = Arc::clone(&self.parts);
        let item = item.id;
        tokio::spawn(async move {
            let shift = parts.clock.shifted();
            match parts.room.leave(item, buyer, Leaving::HasPurchased, shift).await {
                Ok(Left::Inside) => parts.metrics.waiting_room_left(reason, 1),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, %item, "exit not counted"),
            }
            drop(permit);
        });
    }

    /// Asks Redis whether a purchase may go on to the gate. While Redis does not answer, the ticket is good until its
    /// end by this instance's clock.
    ///
    /// # Errors
    /// When the ticket is over, or was given back.
    pub async fn admit(&self, ticket: ShownTicket) -> Result<(), Refusal> {
        let clock = &self.parts.clock;
        let is_good = self.ask(ticket.item, self.parts.room.takes(ticket, clock.shifted())).await;
        let is_good = is_good.unwrap_or_else(|| from_ms(ticket.ends_ms) > clock.now());
        if is_good { Ok(()) } else { Err(Refusal::TicketExpired) }
    }

    /// The answer of Redis about the room of an item; `None` when it does not answer.
    async fn ask<T, E: fmt::Display>(
        &self,
        item: ItemId,
        question: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let permit = self.parts.breaker.enter()?;
        match question.await {
            Ok(answer) => {
                permit.answered();
                Some(answer)
            }
            Err(error) => {
                tracing::warn!(%error, %item, "waiting room does not answer");
                permit.failed();
                None
            }
        }
    }
}

/// Why a buyer is out with this outcome; `None` for a buyer who may still buy.
fn reason_of_exit(item: ItemId, outcome: &Outcome) -> Option<&'static str> {
    let refusal = match outcome {
        Outcome::Sold(_) | Outcome::Queued(_) => return Some("bought"),
        Outcome::Refused(refusal) => refusal.of_item(item)?,
        _ => return None,
    };
    let is_for_good = matches!(
        refusal,
        Refusal::SoldOut { .. }
            | Refusal::LimitReached { .. }
            | Refusal::GroupLimitReached { .. }
            | Refusal::UnpaidLimitReached { .. }
            | Refusal::SaleEnded
    );
    is_for_good.then_some("refused")
}

/// How long the room of an item is kept.
fn room_life(item: &Item, now: OffsetDateTime) -> Duration {
    let life = item.window.ends_at() - now + KEPT_AFTER_SALE;
    Duration::try_from(life).unwrap_or_default().max(Duration::from_secs(60))
}

fn micros(instant: OffsetDateTime) -> i64 {
    i64::try_from(instant.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}

fn from_ms(ms: i64) -> OffsetDateTime {
    let instant = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    instant.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
