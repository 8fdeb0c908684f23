//! A reservation: an order of one or several items, all or none.
//!
//! It takes the steps of a single purchase for each line, and goes straight into group commit, which writes the
//! lines in one transaction. The first line that cannot be sold refuses the whole order.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::Instant;
use tracing::Instrument;

use super::admit::PurchasePermit;
use super::earlier::Cover;
use super::find::{Gate, Sale, Source};
use super::{PurchaseRequest, Purchases};
use gates::Options;
use shop_domain::order::LINES_MAX;
use shop_domain::{
    Cents, Item, ItemId, Order, OrderId, Outcome, Purchase, Quantity, Refusal, RequestKey, Trace,
    UserId,
};

/// The strategy of all reservations.
const STRATEGY: &str = "mysql-batch";

/// The request of a reservation.
#[derive(Clone, Debug)]
pub struct ReservationRequest {
    pub buyer: UserId,
    /// From 1 to [`LINES_MAX`] lines, each of another item.
    pub lines: Vec<LineRequest>,
    /// How long the unpaid order keeps its units: at most as long as each of its items allows.
    pub hold_seconds: Option<u32>,
    /// The caller's key, if it sent one.
    pub key: Option<RequestKey>,
    pub trace: Trace,
}

/// A line of a reservation.
#[derive(Clone, Debug)]
pub struct LineRequest {
    pub item: ItemId,
    pub quantity: Quantity,
    /// The ticket of the item's waiting room, if it has one.
    pub ticket: Option<String>,
}

/// The lines of a reservation with the sales that they are for.
struct Lines<'a> {
    sales: Vec<(PurchaseRequest, Sale<'a>)>,
    /// The number of lines in the ledger; `None` for a single purchase.
    count: Option<u8>,
}

impl Purchases {
    /// Reserves the items of all lines, or says why not. Waits and ends as [`Purchases::buy`].
    ///
    /// # Panics
    /// Without lines, and with too many.
    pub async fn reserve(&self, mut request: ReservationRequest) -> Outcome {
        let lines = request.lines.len();
        assert!((1..=usize::from(LINES_MAX)).contains(&lines), "a reservation has few lines");
        // The sequence in which the ledger locks their rows.
        request.lines.sort_unstable_by_key(|line| line.item);
        let started = Instant::now();
        let lines = match self.find_lines(&request).await {
            Ok(lines) => lines,
            Err(outcome) => return outcome,
        };
        let mut outcome = match self.admit_lines(&lines).await {
            Ok((gate, amounts, permits)) => {
                let purchases = self.purchases_of(&request, &lines, gate, &amounts);
                self.write_lines(purchases, permits, started).await
            }
            Err(refused) => refused,
        };
        if let Some(key) = &request.key
            && Cover::Answer(&outcome).may_hide_an_order()
            && let Some(found) = Box::pin(self.earlier_order(&lines, key, &outcome)).await
        {
            outcome = found;
        }
        lines.sales.iter().for_each(|(_, sale)| self.count(sale, &outcome, started));
        outcome
    }

    /// Step 1: the items of all lines.
    async fn find_lines(&self, request: &ReservationRequest) -> Result<Lines<'_>, Outcome> {
        let mut sales: Vec<(PurchaseRequest, Sale<'_>)> = Vec::with_capacity(request.lines.len());
        for LineRequest { item, quantity, ticket } in &request.lines {
            let line = PurchaseRequest {
                buyer: request.buyer,
                item: *item,
                quantity: *quantity,
                strategy: STRATEGY.to_owned(),
                options: Options::default(),
                key: request.key.clone(),
                ticket: ticket.clone(),
                trace: request.trace.clone(),
            };
            let sale = self.find(&line, Source::Stock).await.map_err(|no| of_line(no, *item))?;
            if sales.iter().any(|(_, other)| other.item.currency != sale.item.currency) {
                return Err(of_line(Outcome::Refused(Refusal::OtherCurrency), *item));
            }
            sales.push((line, sale));
        }
        let count = u8::try_from(sales.len()).ok().filter(|count| *count > 1);
        Ok(Lines { sales, count })
    }

    /// Steps 2 and 3: the amount of each line, and the permits of all. With a permit nothing is waited
    /// for, so two reservations do not wait for each other either.
    async fn admit_lines<'a>(
        &self,
        lines: &Lines<'a>,
    ) -> Result<(Gate<'a>, Vec<Cents>, Vec<PurchasePermit>), Outcome> {
        let (mut gates, mut permits) = (Vec::new(), Vec::new());
        for (_, sale) in &lines.sales {
            gates.push(sale.gate.clone().map_err(|no| of_line(no, sale.item.id))?);
        }
        let checks = lines.sales.iter().map(async |(request, sale)| {
            self.check(request, sale).await.map_err(|no| of_line(no, sale.item.id))
        });
        // The first line that is refused is told, whichever was looked up first.
        let amounts: Vec<Cents> = join_all(checks).await.into_iter().collect::<Result<_, _>>()?;
        let whole = amounts.iter().map(|amount| amount.cents()).sum();
        Cents::new(whole).ok_or(Outcome::Refused(Refusal::AmountOverflow))?;
        for ((request, sale), gate) in lines.sales.iter().zip(&gates) {
            permits.push(self.admit(request, sale, *gate)?);
        }
        Ok((gates[0], amounts, permits))
    }

    /// Makes the purchases of all lines, which have one key and the same times.
    fn purchases_of(
        &self,
        request: &ReservationRequest,
        lines: &Lines<'_>,
        gate: Gate<'_>,
        amounts: &[Cents],
    ) -> Vec<Purchase> {
        let held = lines.sales.iter().map(|(_, sale)| sale.item.hold_seconds);
        let hold = held.chain(request.hold_seconds).min().unwrap_or_default();
        let span = request.trace.span("gate");
        let mut order_id = OrderId::generate();
        if lines.count.is_some() {
            order_id = order_id.line(0);
        }
        let key = request.key.clone().unwrap_or_else(|| RequestKey::of_order(order_id));
        let mut purchases: Vec<Purchase> = Vec::with_capacity(amounts.len());
        for ((line, sale), amount) in lines.sales.iter().zip(amounts) {
            let purchase = self.purchase(line, sale, gate, *amount, &span);
            let created_at = purchases.first().map_or(purchase.created_at, |one| one.created_at);
            let number = u8::try_from(purchases.len()).unwrap_or(LINES_MAX);
            purchases.push(Purchase {
                order_id: if number == 0 { order_id } else { order_id.line(number) },
                key: key.clone(),
                created_at,
                expires_at: created_at + time::Duration::seconds(hold.into()),
                line_count: lines.count,
                counts_refusals: false,
                ..purchase
            });
        }
        purchases
    }

    /// Step 4: writes the order on a task of its own, which goes on when nobody waits any more.
    async fn write_lines(
        &self,
        purchases: Vec<Purchase>,
        permits: Vec<PurchasePermit>,
        started: Instant,
    ) -> Outcome {
        let clients: Vec<_> = permits.iter().filter_map(PurchasePermit::client).collect();
        let (parts, deadline) = (Arc::clone(&self.parts), started + self.parts.gate_wait);
        let log_span = purchases[0].trace.log_span();
        let work = async move {
            let (first, quantities) = (purchases[0].item.id, quantities_of(&purchases));
            let buyer = purchases[0].buyer;
            let items: Vec<Arc<Item>> =
                purchases.iter().map(|line| Arc::clone(&line.item)).collect();
            let outcome = parts.group_commit.write_order(purchases, Some(deadline)).await;
            let outcome = of_line(outcome, first);
            items.iter().for_each(|item| parts.waiting_room.purchase_ended(item, buyer, &outcome));
            match &outcome {
                Outcome::Sold(order) => parts.hub.order_changed(order),
                Outcome::Refused(Refusal::OfLine { item, refusal }) => {
                    let line = quantities.iter().find(|(line, _)| line == item);
                    line.into_iter().for_each(|(_, units)| parts.refused(refusal, *item, *units));
                }
                _ => {}
            }
            permits.into_iter().for_each(|permit| permit.ended(&outcome));
            outcome
        };
        let outcome = self.outcome_of(work.instrument(log_span), started).await;
        clients.into_iter().for_each(|client| client.answered());
        outcome
    }

    /// Step 5: the answer in place of `refused`, if an earlier request with the key is an order or may become
    /// one. Each line is looked for, because other lines may have had this key.
    async fn earlier_order(
        &self,
        lines: &Lines<'_>,
        key: &RequestKey,
        refused: &Outcome,
    ) -> Option<Outcome> {
        let mut found = self.earlier_lines(lines, key, refused).await;
        let replayed = found.iter().flatten().filter_map(order_of).count();
        if (1..found.len()).contains(&replayed) {
            // An order is committed as a whole. If this one was committed while its lines were looked up, the second
            // look finds all of them; otherwise they are of several orders.
            found = self.earlier_lines(lines, key, refused).await;
        }
        let orders: Vec<Order> = found.iter().flatten().filter_map(order_of).cloned().collect();
        let of_other = |outcome: &&Outcome| matches!(outcome, Outcome::Refused(_));
        if let Some(reused) = found.iter().flatten().find(of_other) {
            return Some(reused.clone());
        }
        let Some(order_id) = orders.first().map(Order::whole_id) else {
            return found.into_iter().flatten().next();
        };
        let is_whole = orders.len() == lines.sales.len()
            && orders.iter().all(|order| order.whole_id() == order_id);
        match is_whole {
            true => Order::of_lines(orders).map(Outcome::Replayed),
            false => Some(Outcome::Refused(Refusal::KeyReused { order_id })),
        }
    }

    /// What an earlier request with the key has made of each line.
    async fn earlier_lines(
        &self,
        lines: &Lines<'_>,
        key: &RequestKey,
        refused: &Outcome,
    ) -> Vec<Option<Outcome>> {
        let looked_up = lines
            .sales
            .iter()
            .map(|(request, sale)| self.earlier(request, key, &sale.item, refused, lines.count));
        join_all(looked_up).await
    }
}

fn order_of(outcome: &Outcome) -> Option<&Order> {
    match outcome {
        Outcome::Replayed(order) => Some(order),
        _ => None,
    }
}

fn quantities_of(purchases: &[Purchase]) -> Vec<(ItemId, Quantity)> {
    purchases.iter().map(|purchase| (purchase.item.id, purchase.quantity)).collect()
}

/// The outcome for the whole order, when it comes from the line of `item`.
fn of_line(outcome: Outcome, item: ItemId) -> Outcome {
    match outcome {
        Outcome::Refused(refusal) => Outcome::Refused(refusal.of_line(item)),
        other => other,
    }
}
