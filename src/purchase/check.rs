//! Step 2: the checks that need no strategy: the sale's window, the ticket, the buyer's limit, and "sold out" from
//! memory.

use std::sync::Arc;

use futures::future::join_all;

use super::find::Gate;
use super::{LineRequest, Lines, OrderRequest, Purchases, Source};
use gates::redis_store::room::ShownTicket;
use shop_domain::{Cents, Item, Outcome, Refusal};

impl Purchases {
    /// Checks an order with the items of its lines; returns the gate. The first line that cannot be sold refuses
    /// the order. Redis is asked about tickets last: only for a request that goes on.
    pub(super) async fn check<'a>(
        &self,
        order: &OrderRequest,
        items: &[Arc<Item>],
        gate: Result<Gate<'a>, Outcome>,
    ) -> Result<Gate<'a>, Outcome> {
        let gate = gate?;
        let mut tickets: Lines<ShownTicket> = Lines::new();
        let mut whole = 0;
        for (line, item) in order.lines.iter().zip(items) {
            let ticket = self.check_line(order, line, item);
            tickets.extend(ticket.map_err(|no| order.of_line(no, item.id))?);
            whole += item.price.times(line.quantity).map_or(0, Cents::cents);
        }
        Cents::new(whole).ok_or(Outcome::Refused(Refusal::AmountOverflow))?;
        let asked = tickets.iter().map(|ticket| self.parts.waiting_room.admit(*ticket));
        for (ticket, admitted) in tickets.iter().zip(join_all(asked).await) {
            admitted.map_err(|no| order.of_line(Outcome::Refused(no), ticket.item))?;
        }
        Ok(gate)
    }

    /// Checks a line. Returns its ticket, if its item has a waiting room. An offer needs none, and takes
    /// nothing from the stock.
    fn check_line(
        &self,
        order: &OrderRequest,
        line: &LineRequest,
        item: &Item,
    ) -> Result<Option<ShownTicket>, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let quantity = line.quantity;
        if item.price.times(quantity).is_none() {
            return refuse(Refusal::AmountOverflow);
        }
        item.check_open(self.parts.clock.now()).map_err(Outcome::Refused)?;
        if order.source == Source::Offer {
            return Ok(None);
        }
        if item.awaits_draw() {
            return refuse(Refusal::DrawOnly);
        }
        let ticket = if item.waiting_room {
            let shown = line.ticket.as_deref();
            let read = self.parts.waiting_room.tickets.read(shown, item.id, order.buyer);
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
