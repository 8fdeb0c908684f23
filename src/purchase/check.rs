//! Step 2: what can be said without the strategy: the sale's window, the ticket, the buyer's limit,
//! and "sold out" from memory.

use super::find::{Sale, Source};
use super::{PurchaseRequest, Purchases};
use shop_domain::window::Phase;
use shop_domain::{Cents, Outcome, Refusal};

impl Purchases {
    /// Checks a request, and returns the price of all units. An offer needs no ticket, and takes
    /// nothing from the stock. Redis is asked about a ticket last: only for a request that goes on.
    pub(super) async fn check(
        &self,
        request: &PurchaseRequest,
        sale: &Sale<'_>,
    ) -> Result<Cents, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let (item, now) = (&sale.item, self.parts.clock.now());
        let Some(amount) = item.price.times(request.quantity) else {
            return refuse(Refusal::AmountOverflow);
        };
        match item.window.phase(now) {
            Phase::Upcoming => {
                return refuse(Refusal::SaleNotStarted { starts_at: item.window.starts_at() });
            }
            Phase::Ended => return refuse(Refusal::SaleEnded),
            Phase::Open if item.paused => return refuse(Refusal::SalePaused),
            Phase::Open if sale.source == Source::Offer => return Ok(amount),
            Phase::Open if item.draw.is_some_and(|draw| !draw.is_drawn) => {
                return refuse(Refusal::DrawOnly);
            }
            Phase::Open => {}
        }
        let room = &self.parts.waiting_room;
        let ticket = match item.waiting_room {
            true => Some(room.read_ticket(request.ticket.as_deref(), item.id, request.buyer)),
            false => None,
        };
        let ticket = ticket.transpose().map_err(Outcome::Refused)?;
        if request.quantity.units() > item.per_buyer_limit {
            return refuse(Refusal::QuantityOverLimit { limit: item.per_buyer_limit });
        }
        if self.parts.sold_out.is_known(item.id) {
            self.parts.metrics.sold_out_from_memory.inc();
            return refuse(Refusal::SoldOut { asked_at: None });
        }
        if let Some(ticket) = ticket {
            room.admit(ticket).await.map_err(Outcome::Refused)?;
        }
        Ok(amount)
    }
}
