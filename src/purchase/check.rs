//! Step 2: what can be said without the strategy: the sale's window, the ticket, the buyer's limit,
//! and "sold out" from memory.

use futures::future::join_all;

use super::find::{Gate, Line};
use super::{Lines, OrderRequest, Purchases, Source};
use gates::redis_store::room::ShownTicket;
use shop_domain::{Cents, Outcome, Refusal};

impl Purchases {
    /// Checks an order and sets the amounts of its lines; returns the gate. The first line that cannot be sold
    /// refuses the order. Redis is asked about tickets last: only for a request that goes on.
    pub(super) async fn check<'a>(
        &self,
        order: &OrderRequest,
        lines: &mut [Line<'a>],
    ) -> Result<Gate<'a>, Outcome> {
        let mut tickets: Lines<ShownTicket> = Lines::new();
        for line in &mut *lines {
            let ticket = self.check_line(order, line);
            tickets.extend(ticket.map_err(|no| order.of_line(no, line.item.id))?);
        }
        let whole = lines.iter().map(|line| line.amount.cents()).sum();
        Cents::new(whole).ok_or(Outcome::Refused(Refusal::AmountOverflow))?;
        let asked = tickets.iter().map(|ticket| self.parts.waiting_room.admit(*ticket));
        for (ticket, admitted) in tickets.iter().zip(join_all(asked).await) {
            admitted.map_err(|no| order.of_line(Outcome::Refused(no), ticket.item))?;
        }
        lines[0].gate.clone()
    }

    /// Checks a line. Returns its ticket, if its item has a waiting room. An offer needs none, and takes
    /// nothing from the stock.
    fn check_line(
        &self,
        order: &OrderRequest,
        line: &mut Line<'_>,
    ) -> Result<Option<ShownTicket>, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        if let Err(outcome) = &line.gate {
            return Err(outcome.clone());
        }
        let item = &line.item;
        let quantity = line.request.quantity;
        let Some(amount) = item.price.times(quantity) else {
            return refuse(Refusal::AmountOverflow);
        };
        line.amount = amount;
        item.check_open(self.parts.clock.now()).map_err(Outcome::Refused)?;
        if order.source == Source::Offer {
            return Ok(None);
        }
        if item.awaits_draw() {
            return refuse(Refusal::DrawOnly);
        }
        let ticket = if item.waiting_room {
            let shown = line.request.ticket.as_deref();
            let read = self.parts.waiting_room.read_ticket(shown, item.id, order.buyer);
            Some(read.map_err(Outcome::Refused)?)
        } else {
            None
        };
        if quantity.units() > item.per_buyer_limit {
            return refuse(Refusal::QuantityOverLimit { limit: item.per_buyer_limit });
        }
        if self.parts.sold_out.is_known(item.id) {
            self.parts.metrics.sold_out_from_memory.inc();
            return refuse(Refusal::SoldOut { asked_at: None });
        }
        Ok(ticket)
    }
}
