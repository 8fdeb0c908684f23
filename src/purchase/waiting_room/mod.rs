//! The waiting room: a queue in front of a sale, for items that have one.
//!
//! A buyer who joins gets a *queue token*: a signed text with the buyer's admission time. From that
//! time on, while the sale is open and units are left, the queue token is exchanged for a *ticket*,
//! without which the item cannot be bought. Admission times follow each other at a fixed rate, so
//! many buyers reach the gates as an even stream, and the position in the queue is exact. When no
//! unit is left, every buyer gets that answer at once.
//!
//! **State.** Queue tokens and tickets are verified by their signature alone, on any instance.
//! Memory holds only the next admission time of each item and, for a while, the last token of each
//! buyer: so a buyer who asks again, with or without the token, keeps the position. Each instance
//! has a queue of its own; the order holds within one.
//!
//! **Proof of work.** With `waiting_room.proof_bits_max` above 0, a queue token is exchanged
//! together with a number for which `SHA-256(token:number)` begins with the token's number of zero
//! bits: 0 in an empty queue, and one more each time the queue is twice as long.

mod queue_token;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use ledger::route::cache::Cache;
use queue_token::{Kind, QueueToken, TokenSigner};
use shop_domain::window::Phase;
use shop_domain::{Item, ItemId, Refusal, Unavailable, UserId};

pub use queue_token::TOKEN_LENGTH_MAX;

/// Items whose queues are remembered at once.
const QUEUES_MAX: usize = 10_000;
/// Buyers whose queue tokens are remembered at once.
const TOKENS_MAX: usize = 200_000;
/// The longest pause until a buyer asks again: the sale may be paused or edited meanwhile.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
/// The shortest pause until a buyer asks again.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(200);
/// The longest number that proves work.
const PROOF_LENGTH_MAX: usize = 32;

/// The settings of waiting rooms; see the section `[waiting_room]`.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Buyers admitted per second.
    pub per_second: u32,
    /// How long a ticket is valid, and a queue token after its admission time, in seconds.
    pub ticket_seconds: u32,
    /// The longest queue of an item.
    pub line_max: u64,
    /// The most zero bits of a proof of work.
    pub proof_bits_max: u8,
}

/// The waiting rooms of all items. Clones share what is remembered.
#[derive(Clone)]
pub struct WaitingRoom {
    signer: TokenSigner,
    /// Time between two admissions, in microseconds.
    step_us: i64,
    ticket_life: time::Duration,
    proof_bits_max: u8,
    line_max: u64,
    /// The next admission time of each item, in microseconds of the wall clock.
    queues: Cache<ItemId, Arc<AtomicI64>>,
    tokens: Cache<(ItemId, UserId), QueueToken>,
}

/// The status of a buyer in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStatus {
    /// Waiting: the admission time has not come.
    Waiting {
        /// The queue token, to be shown next time, on any instance.
        token: String,
        /// The number of buyers before this one.
        position: u64,
        /// The pause until the next call.
        ask_again: Duration,
        /// Zero bits that the proof of work must have.
        proof_bits: u8,
    },
    /// Admitted: the admission time has come.
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
    /// Not now: the queue is as long as it may be, or the ledger does not answer.
    Unavailable(Unavailable),
    /// The proof of work is missing or wrong.
    NoProof {
        /// Zero bits that the proof must have.
        bits: u8,
    },
}

impl WaitingRoom {
    /// Makes the waiting rooms. The first of `secrets` signs queue tokens and tickets; a signature
    /// by any of them is accepted.
    #[must_use]
    pub fn new(rules: Rules, secrets: &[&str]) -> Self {
        Self {
            signer: TokenSigner::new(secrets),
            step_us: 1_000_000 / i64::from(rules.per_second.max(1)),
            ticket_life: time::Duration::seconds(rules.ticket_seconds.into()),
            proof_bits_max: rules.proof_bits_max,
            line_max: rules.line_max,
            queues: Cache::new(QUEUES_MAX),
            tokens: Cache::new(TOKENS_MAX),
        }
    }

    /// Joins the queue of an item, or answers the position in it; exchanges the queue token for a
    /// ticket after its admission time. `shown` is the queue token of an earlier answer, `proof`
    /// the number that was asked for.
    pub fn join_or_poll(
        &self,
        item: &Item,
        buyer: UserId,
        (shown, proof): (Option<&str>, Option<&str>),
        now: OffsetDateTime,
    ) -> Result<QueueStatus, Denied> {
        let phase = item.window.phase(now);
        if phase == Phase::Ended {
            return Err(Denied::Refused(Refusal::SaleEnded));
        }
        let (signed, token) = self.token(item, buyer, shown, now)?;
        let open = phase == Phase::Open && !item.paused;
        let begin_us = micros(now).max(micros(item.window.starts_at()));
        let ahead_us = (token.admit_us - begin_us).max(0);
        if open && ahead_us == 0 {
            if !is_proof(&signed, proof, token.proof_bits) {
                return Err(Denied::NoProof { bits: token.proof_bits });
            }
            let expires_at = now + self.ticket_life;
            let ticket = QueueToken { kind: Kind::Ticket, expires_us: micros(expires_at), ..token };
            return Ok(QueueStatus::Admitted { ticket: self.signer.sign(&ticket), expires_at });
        }
        let wait_us = (token.admit_us - micros(now)).max(begin_us - micros(now));
        let wait = Duration::from_micros(u64::try_from(wait_us).unwrap_or(0));
        // The end of a pause is not known.
        let wait = if item.paused { ASK_AGAIN_MAX } else { wait };
        Ok(QueueStatus::Waiting {
            token: signed,
            position: u64::try_from(ahead_us.div_euclid(self.step_us)).unwrap_or(0),
            ask_again: wait.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX),
            proof_bits: token.proof_bits,
        })
    }

    /// Whether a purchase may go on to the gate.
    ///
    /// # Errors
    /// What is wrong with its ticket.
    pub fn admit(
        &self,
        ticket: Option<&str>,
        item: ItemId,
        buyer: UserId,
        now: OffsetDateTime,
    ) -> Result<(), Refusal> {
        let token = self.signer.read(ticket.ok_or(Refusal::TicketRequired)?);
        let token = token.filter(|token| (token.buyer, token.item) == (buyer, item));
        match token.ok_or(Refusal::TicketInvalid)? {
            QueueToken { kind: Kind::Position, .. } => Err(Refusal::TicketNotYetValid),
            token if token.admit_us > micros(now) => Err(Refusal::TicketNotYetValid),
            token if token.expires_us <= micros(now) => Err(Refusal::TicketExpired),
            _ => Ok(()),
        }
    }

    /// The queue token that is shown, else the one that is remembered, else a new one at the end,
    /// with its signed text.
    fn token(
        &self,
        item: &Item,
        buyer: UserId,
        shown: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<(String, QueueToken), Denied> {
        if let Some(text) = shown {
            let token = self.signer.read(text);
            let token = token.filter(|token| (token.buyer, token.item) == (buyer, item.id));
            let token = token.filter(|token| token.kind == Kind::Position);
            let token = token.ok_or(Denied::Refused(Refusal::TicketInvalid))?;
            if token.expires_us > micros(now) {
                return Ok((text.to_owned(), token));
            }
        }
        let key = (item.id, buyer);
        let fresh = |token: &QueueToken| token.expires_us > micros(now);
        let token = match self.tokens.get(key).filter(fresh) {
            Some(token) => token,
            None => {
                let token = self.join(item, buyer, now)?;
                self.tokens.insert(key, token);
                token
            }
        };
        Ok((self.signer.sign(&token), token))
    }

    /// Takes the next admission time of the queue.
    fn join(&self, item: &Item, buyer: UserId, now: OffsetDateTime) -> Result<QueueToken, Denied> {
        let next_us = self.queues.get_or_insert_with(item.id, Arc::default);
        let first_us = micros(now).max(micros(item.window.starts_at()));
        let queue_us =
            i64::try_from(self.line_max).unwrap_or(i64::MAX).saturating_mul(self.step_us);
        let longest_us = first_us.saturating_add(queue_us);
        let step = |next_us: i64| {
            let admit_us = next_us.max(first_us);
            (admit_us < longest_us).then_some(admit_us + self.step_us)
        };
        let taken = next_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        let admit_us =
            taken.map_err(|_| Denied::Unavailable(Unavailable::Overloaded))?.max(first_us);
        let ahead = u64::try_from(admit_us - first_us).unwrap_or(0);
        let ahead = ahead.div_ceil(self.step_us.unsigned_abs());
        let bits = u8::try_from((ahead + 1).ilog2()).unwrap_or(u8::MAX);
        Ok(QueueToken {
            kind: Kind::Position,
            buyer,
            item: item.id,
            admit_us,
            expires_us: admit_us + micros_of(self.ticket_life),
            proof_bits: bits.min(self.proof_bits_max),
        })
    }
}

/// Whether a number proves the work that a queue token asks for.
fn is_proof(signed: &str, proof: Option<&str>, bits: u8) -> bool {
    if bits == 0 {
        return true;
    }
    let Some(proof) = proof.filter(|proof| proof.len() <= PROOF_LENGTH_MAX) else { return false };
    let hash = Sha256::digest(format!("{signed}:{proof}"));
    let zeros = u128::from_be_bytes(hash[..16].try_into().expect("16 of 32 bytes")).leading_zeros();
    zeros >= u32::from(bits)
}

fn micros(instant: OffsetDateTime) -> i64 {
    i64::try_from(instant.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}

fn micros_of(span: time::Duration) -> i64 {
    i64::try_from(span.whole_microseconds()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
