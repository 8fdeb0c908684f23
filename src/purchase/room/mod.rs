//! The waiting room: a line in front of a sale, for items that have one.
//!
//! Whoever asks gets a *place*: a signed note that says when its turn is. When the turn has come, the
//! sale is open and something is left, the place is exchanged for a *ticket*, without which the
//! item cannot be bought. Turns follow each other at a fixed rate, so a crowd reaches the gates as an
//! even stream, and a position is an honest figure. When nothing is left, everybody is told at once.
//!
//! **What is kept.** Places and tickets are verified by their signature alone, on any instance. In
//! memory is only when the next turn of each item is and, for a while, which place a buyer got
//! last: so that asking again, with or without the place, is no second place. Each instance has a
//! line of its own; order holds within one.
//!
//! **Proof of work.** With `waiting_room.proof_bits_max` above 0, a place has to be exchanged
//! together with a number that makes `SHA-256(place:number)` begin with that many zero bits. How many is
//! written in the place: none while nobody waits, one more each time the line is twice as long.

mod note;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::domain::window::Phase;
use crate::domain::{Item, ItemId, Refusal, Unavailable, UserId};
use note::{Kind, Note, Notes};

pub use note::NOTE_LENGTH_MAX;

/// Items whose lines are remembered at once.
const LINES_MAX: u64 = 10_000;
/// Buyers whose places are remembered at once.
const PLACES_MAX: u64 = 200_000;
/// How long the place of a buyer is remembered, and a line that nobody joins.
const REMEMBERED: Duration = Duration::from_secs(3_600);
/// The longest pause until the next look: things change meanwhile.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
/// The shortest.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(200);
/// The longest number that proves work.
const PROOF_LENGTH_MAX: usize = 32;

/// How rooms work, see the section `[waiting_room]` of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Turns per second.
    pub per_second: u32,
    /// How long a ticket is good for, and a place whose turn has come.
    pub ticket_seconds: u32,
    /// The longest line of an item.
    pub line_max: u64,
    /// The most zero bits of a proof of work.
    pub proof_bits_max: u8,
}

/// The waiting rooms of all items. Clones share what is remembered.
#[derive(Clone)]
pub struct Room {
    notes: Notes,
    /// From one turn to the next, in microseconds.
    step_us: i64,
    ticket_life: time::Duration,
    proof_bits_max: u8,
    line_max: u64,
    /// When the next turn of an item is, in microseconds of the wall clock.
    lines: Cache<ItemId, Arc<AtomicI64>>,
    places: Cache<(ItemId, UserId), Note>,
}

/// How somebody stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In line.
    Waiting {
        /// Show it next time, here or elsewhere.
        place: String,
        /// How many turns come first.
        position: u64,
        /// When to ask again.
        ask_again: Duration,
        /// Zero bits that the proof of work must have.
        proof_bits: u8,
    },
    /// It is their turn.
    Admitted {
        /// To be sent with the purchase.
        ticket: String,
        /// Until when it is good.
        expires_at: OffsetDateTime,
    },
}

/// Why there is no place and no ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turned {
    /// The item cannot be bought, with or without a ticket.
    Away(Refusal),
    /// Not now: the line is as long as it may be, or the ledger does not answer.
    Unavailable(Unavailable),
    /// The proof of work is missing or wrong.
    NoProof {
        /// Zero bits that it must have.
        bits: u8,
    },
}

impl Room {
    /// Rooms by their rules. The first of `secrets` signs places and tickets, what any of them has
    /// signed is taken.
    #[must_use]
    pub fn new(rules: Rules, secrets: &[&str]) -> Self {
        let remembered = |most| Cache::builder().max_capacity(most).time_to_idle(REMEMBERED);
        Self {
            notes: Notes::new(secrets),
            step_us: 1_000_000 / i64::from(rules.per_second.max(1)),
            ticket_life: time::Duration::seconds(rules.ticket_seconds.into()),
            proof_bits_max: rules.proof_bits_max,
            line_max: rules.line_max,
            lines: remembered(LINES_MAX).build(),
            places: Cache::builder().max_capacity(PLACES_MAX).time_to_live(REMEMBERED).build(),
        }
    }

    /// Takes a place in the line of an item, or looks how far it has come; exchanges it when its
    /// turn is. `place` is what an earlier answer gave, `proof` the number that was asked for.
    ///
    /// # Errors
    /// See [`Turned`].
    pub fn stand(
        &self,
        item: &Item,
        buyer: UserId,
        (place, proof): (Option<&str>, Option<&str>),
        now: OffsetDateTime,
    ) -> Result<Standing, Turned> {
        let phase = item.window.phase(now);
        if phase == Phase::Ended {
            return Err(Turned::Away(Refusal::SaleEnded));
        }
        let (place, note) = self.place(item, buyer, place, now)?;
        let open = phase == Phase::Open && !item.paused;
        let begin_us = micros(now).max(micros(item.window.starts_at()));
        let ahead_us = (note.turn_us - begin_us).max(0);
        if open && ahead_us == 0 {
            if !is_proof(&place, proof, note.proof_bits) {
                return Err(Turned::NoProof { bits: note.proof_bits });
            }
            let expires_at = now + self.ticket_life;
            let ticket = Note { kind: Kind::Ticket, expires_us: micros(expires_at), ..note };
            return Ok(Standing::Admitted { ticket: self.notes.sign(&ticket), expires_at });
        }
        let wait_us = (note.turn_us - micros(now)).max(begin_us - micros(now));
        let wait = Duration::from_micros(u64::try_from(wait_us).unwrap_or(0));
        // Nobody knows when a pause ends.
        let wait = if item.paused { ASK_AGAIN_MAX } else { wait };
        Ok(Standing::Waiting {
            place,
            position: u64::try_from(ahead_us.div_euclid(self.step_us)).unwrap_or(0),
            ask_again: wait.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX),
            proof_bits: note.proof_bits,
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
        let note = self.notes.read(ticket.ok_or(Refusal::TicketRequired)?);
        let note = note.filter(|note| (note.buyer, note.item) == (buyer, item));
        match note.ok_or(Refusal::TicketInvalid)? {
            Note { kind: Kind::Place, .. } => Err(Refusal::TicketNotYetValid),
            note if note.turn_us > micros(now) => Err(Refusal::TicketNotYetValid),
            note if note.expires_us <= micros(now) => Err(Refusal::TicketExpired),
            _ => Ok(()),
        }
    }

    /// The place that is shown, else the one that is remembered, else a new one at the end.
    fn place(
        &self,
        item: &Item,
        buyer: UserId,
        shown: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<(String, Note), Turned> {
        if let Some(text) = shown {
            let note = self.notes.read(text);
            let note = note.filter(|note| (note.buyer, note.item) == (buyer, item.id));
            let note = note.filter(|note| note.kind == Kind::Place);
            let note = note.ok_or(Turned::Away(Refusal::TicketInvalid))?;
            if note.expires_us > micros(now) {
                return Ok((text.to_owned(), note));
            }
        }
        let key = (item.id, buyer);
        let fresh = |note: &Note| note.expires_us > micros(now);
        let note = match self.places.get(&key).filter(fresh) {
            Some(note) => note,
            None => {
                let note = self.join(item, buyer, now)?;
                self.places.insert(key, note);
                note
            }
        };
        Ok((self.notes.sign(&note), note))
    }

    /// The next turn of the line.
    fn join(&self, item: &Item, buyer: UserId, now: OffsetDateTime) -> Result<Note, Turned> {
        let next_us = self.lines.get_with(item.id, Arc::default);
        let first_us = micros(now).max(micros(item.window.starts_at()));
        let line_us = i64::try_from(self.line_max).unwrap_or(i64::MAX).saturating_mul(self.step_us);
        let longest_us = first_us.saturating_add(line_us);
        let step = |next_us: i64| {
            let turn_us = next_us.max(first_us);
            (turn_us < longest_us).then_some(turn_us + self.step_us)
        };
        let taken = next_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        let turn_us =
            taken.map_err(|_| Turned::Unavailable(Unavailable::Overloaded))?.max(first_us);
        let ahead = u64::try_from(turn_us - first_us).unwrap_or(0);
        let ahead = ahead.div_ceil(self.step_us.unsigned_abs());
        let bits = u8::try_from((ahead + 1).ilog2()).unwrap_or(u8::MAX);
        Ok(Note {
            kind: Kind::Place,
            buyer,
            item: item.id,
            turn_us,
            expires_us: turn_us + micros_of(self.ticket_life),
            proof_bits: bits.min(self.proof_bits_max),
        })
    }
}

/// Whether a number proves the work that a place asks for.
fn is_proof(place: &str, proof: Option<&str>, bits: u8) -> bool {
    if bits == 0 {
        return true;
    }
    let Some(proof) = proof.filter(|proof| proof.len() <= PROOF_LENGTH_MAX) else { return false };
    let hash = Sha256::digest(format!("{place}:{proof}"));
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
