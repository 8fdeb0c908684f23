//! The queue token and the ticket of a buyer.

use time::OffsetDateTime;

use super::queue_token::{Kind, QueueToken, Tickets};
use super::{Denied, QueueStatus, from_ms, micros};
use gates::redis_store::room::ShownTicket;
use shop_domain::{ItemId, Refusal, UserId};

/// How long a queue token is valid: what it can bring back after a loss of Redis.
const TOKEN_LIFE: time::Duration = time::Duration::DAY;

impl Tickets {
    /// Signs the queue token of a buyer with this number. It is valid for a day from `since` on.
    pub fn position(
        &self,
        (item, buyer): (ItemId, UserId),
        number: i64,
        proof_bits: u8,
        since: OffsetDateTime,
    ) -> String {
        let expires_us = micros(since + TOKEN_LIFE);
        let kind = Kind::Position;
        self.sign(&QueueToken { kind, buyer, item, number, expires_us, proof_bits })
    }

    /// Reads a ticket of this buyer for this item. The ticket may have expired.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(
        &self,
        ticket: Option<&str>,
        item: ItemId,
        buyer: UserId,
    ) -> Result<ShownTicket, Refusal> {
        let token = self.claims(ticket.ok_or(Refusal::TicketRequired)?);
        let token = token.filter(|token| (token.buyer, token.item) == (buyer, item));
        match token.ok_or(Refusal::TicketInvalid)? {
            QueueToken { kind: Kind::Position, .. } => Err(Refusal::TicketNotYetValid),
            token => Ok(ShownTicket { item, buyer, ends_ms: token.expires_us / 1_000 }),
        }
    }

    /// The ticket of a buyer who is admitted until `ends_ms`.
    pub fn admitted(&self, item: ItemId, buyer: UserId, ends_ms: i64) -> QueueStatus {
        let expires_us = ends_ms.saturating_mul(1_000);
        let ticket =
            QueueToken { kind: Kind::Ticket, buyer, item, number: 0, expires_us, proof_bits: 0 };
        QueueStatus::Admitted { ticket: self.sign(&ticket), expires_at: from_ms(ends_ms) }
    }

    /// Reads a queue token of this buyer and item; `None` when it has expired.
    ///
    /// # Errors
    /// When it is not such a token.
    pub fn place(
        &self,
        text: &str,
        item: ItemId,
        buyer: UserId,
        now: OffsetDateTime,
    ) -> Result<Option<QueueToken>, Denied> {
        let token = self.claims(text);
        let token = token.filter(|token| (token.buyer, token.item) == (buyer, item));
        let token = token.filter(|token| token.kind == Kind::Position);
        let token = token.ok_or(Denied::Refused(Refusal::TicketInvalid))?;
        Ok(Some(token).filter(|token| token.expires_us > micros(now)))
    }
}
