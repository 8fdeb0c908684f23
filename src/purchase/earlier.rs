//! The result of an earlier try with the same key, or what may still become of it.
//!
//! A refusal is for good: the key must not become an order later. So before a request with a
//! caller's key is turned away, an earlier try is looked for where it can be, in the direction in
//! which it moves: running in this process, running elsewhere, queued, in the ledger. A
//! try that moves on meanwhile is found at its next stop.
//!
//! The other way round, a try that comes to a gate must not become a second order. The arbiter's
//! unique key finds an order in the ledger. An order in a queue is not there yet, and an order that
//! a gate queues has not met the arbiter: for those two the earlier try is looked for before the
//! gate.
//!
//! Once an item is sold out every request with a key asks the ledger, thousands in a second. So they are
//! asked about together ([`KeyReads`]). The reads are `ledger::rows::request_keys`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use mysql_connection::{Database, Writer, within};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{NO_LEDGER, OrderRequest, PurchaseParts, Purchases};
use gates::Card;
use gates::redis_store::queue::QueuedRequest;
use ledger::breaker::BreakerPermit;
use ledger::gathered::{GatheredReads, Rows};
use ledger::rows::orders::RequestOf;
use ledger::rows::request_keys::{KeyState, RequestKeys};
use ledger::write::replay;
use shop_domain::outcome::Dependency;
use shop_domain::{Doubt, Item, LedgerError, Order, Outcome, Purchase, Refusal, Unavailable};

/// How long a question waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The look-ups of keys, in groups.
pub type KeyReads = GatheredReads<KeyState, RequestOf>;

/// Whether an earlier try of an order that is about to pass a gate may be in a queue, where the gate does not see it.
pub(super) fn may_be_queued(lines: &[Purchase], card: &Card) -> bool {
    let has_queue = lines.iter().any(|line| line.item.has_queue);
    lines[0].key.is_from_caller() && (has_queue || !card.durable_before_reply)
}

/// Whether an earlier try of an order with this outcome may have become an order, or may still become one.
pub(super) fn may_be_an_order(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(refusal) => !matches!(refusal, Refusal::KeyReused { .. }),
        // It was turned away before anything was known of it, to spare the service work.
        Outcome::Unavailable(why) => *why != Unavailable::Overloaded,
        // It may have become one, with its answer still on the way.
        Outcome::Unknown(doubt) => *doubt == Doubt::InProgress,
        Outcome::Sold(_) | Outcome::Replayed(_) | Outcome::Queued(_) => false,
    }
}

impl Purchases {
    /// The answer in place of `refused`, if an earlier try of the order is an order or may become one. Each line
    /// is looked for, because other lines may have had this key.
    pub(super) async fn earlier(
        &self,
        order: &OrderRequest,
        items: &[Arc<Item>],
        refused: &Outcome,
    ) -> Option<Outcome> {
        // An order is found by its key, whatever its strategy was.
        let purchases = self.purchases(order, items, "", &order.trace);
        if let [line] = &purchases[..] {
            return self.earlier_line(line, refused).await;
        }
        let look_up = || {
            join_all(purchases.iter().map(async |line| {
                hold!("line-asked", line.item.id.get());
                let found = self.earlier_line(line, refused).await;
                hold!("line-answered", line.item.id.get());
                found
            }))
        };
        let mut found = look_up().await;
        let replayed = found.iter().flatten().filter_map(order_of).count();
        if (1..found.len()).contains(&replayed) {
            // An order is committed as a whole. If this one was committed while its lines were looked up, the second
            // look finds all of them; otherwise they are of several orders.
            found = look_up().await;
        }
        of_whole(&found)
    }

    /// Finds out what an earlier try has made of a line, or may still make of it.
    async fn earlier_line(&self, line: &Purchase, refused: &Outcome) -> Option<Outcome> {
        let parts = &*self.parts;
        let is_running = parts.admission.requests.is_running(line.buyer, line.item.id, &line.key);
        let found = match in_ledger_or_queue(parts, line).await {
            None if line.item.has_queue => match in_queue(parts, line, Permit::Needed).await {
                // The try may have moved from the queue to the ledger in between.
                None => in_ledger(parts, line).await,
                queued => queued,
            },
            found => found,
        };
        // The purchase that keeps this one out may be an earlier try of it.
        let kept_out = *refused == Outcome::Refused(Refusal::RequestInProgress);
        match found {
            None | Some(Outcome::Unavailable(_)) if is_running || kept_out => {
                Some(Outcome::Unknown(Doubt::InProgress))
            }
            found => found,
        }
    }
}

/// Puts together what the earlier tries of all lines say of the order.
fn of_whole(lines: &[Option<Outcome>]) -> Option<Outcome> {
    let found = || lines.iter().flatten();
    let is_of_other = |outcome: &&Outcome| matches!(outcome, Outcome::Refused(_));
    // A line that was not looked up, or still runs, may be of the order of the others.
    let is_open = |outcome: &&Outcome| order_of(outcome).is_none();
    if let Some(outcome) = found().find(is_of_other).or_else(|| found().find(is_open)) {
        return Some(outcome.clone());
    }
    let orders: Vec<Order> = found().filter_map(order_of).cloned().collect();
    let order_id = orders.first()?.whole_id();
    let is_whole =
        orders.len() == lines.len() && orders.iter().all(|order| order.whole_id() == order_id);
    if is_whole {
        Order::of_lines(orders).map(Outcome::Replayed)
    } else {
        Some(Outcome::Refused(Refusal::KeyReused { order_id }))
    }
}

fn order_of(outcome: &Outcome) -> Option<&Order> {
    match outcome {
        Outcome::Replayed(order) => Some(order),
        _ => None,
    }
}

/// Finds the order that the request of an admitted order has already become, where one may be in a queue.
pub(super) async fn find(
    parts: &PurchaseParts,
    purchases: &[Purchase],
    card: &Card,
) -> Option<Outcome> {
    for purchase in purchases {
        let found = if !card.durable_before_reply {
            // The script of the queue knows which orders are queued.
            in_ledger_or_queue(parts, purchase).await.map(|found| match found {
                // Too many look-ups at once say nothing about the ledger.
                Outcome::Unavailable(_) => Outcome::Unavailable(Unavailable::Overloaded),
                found => found,
            })
        } else if purchase.item.has_queue {
            let needs_redis = card.needs.contains(&Dependency::Redis);
            let permit = if needs_redis { Permit::Held } else { Permit::Needed };
            in_queue(parts, purchase, permit).await
        } else {
            None
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether the caller may ask Redis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Permit {
    /// The purchase holds a permit of Redis' breaker, and reports its outcome there.
    Held,
    /// The breaker has to be asked first.
    Needed,
}

/// Like [`in_ledger`]; a request that runs because a consumer writes it is answered as the queued
/// order.
async fn in_ledger_or_queue(parts: &PurchaseParts, purchase: &Purchase) -> Option<Outcome> {
    let found = in_ledger(parts, purchase).await;
    if purchase.item.has_queue && found == Some(Outcome::Unknown(Doubt::InProgress)) {
        match in_queue(parts, purchase, Permit::Needed).await {
            None | Some(Outcome::Unavailable(_)) => found,
            queued => queued,
        }
    } else {
        found
    }
}

async fn in_ledger(parts: &PurchaseParts, purchase: &Purchase) -> Option<Outcome> {
    if parts.breakers.mysql.is_open() {
        return Some(NO_LEDGER);
    }
    let request = (purchase.buyer, purchase.item.id, purchase.key.as_str().to_owned());
    let answer = timeout(ANSWER_MAX, parts.keys.read(request)).await;
    match answer.unwrap_or(Err(LedgerError::Unavailable)) {
        Ok(None) => None,
        Ok(Some(KeyState::Running)) => Some(Outcome::Unknown(Doubt::InProgress)),
        Ok(Some(KeyState::Order(order))) => Some(replay(purchase, order)),
        Err(_) => Some(NO_LEDGER),
    }
}

async fn in_queue(parts: &PurchaseParts, purchase: &Purchase, permit: Permit) -> Option<Outcome> {
    let item = purchase.item.id;
    let away = Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis));
    let asked = match permit {
        Permit::Held => None,
        Permit::Needed => match parts.breakers.redis.enter() {
            Some(permit) => Some(permit),
            None => return Some(away),
        },
    };
    match parts.queue.find_request(item, purchase.buyer, &purchase.key).await {
        Ok(queued) => {
            asked.into_iter().for_each(BreakerPermit::answered);
            queued.map(|QueuedRequest { order, is_replicated }| {
                if is_replicated {
                    replay(purchase, order)
                } else {
                    Outcome::Unknown(Doubt::TooFewReplicas)
                }
            })
        }
        Err(error) => {
            asked.into_iter().for_each(BreakerPermit::failed);
            tracing::warn!(%error, %item, "request key not looked up in the queue");
            Some(away)
        }
    }
}

/// Makes the look-ups for the instance that announces its own requests as `instance`. A key that is not found is
/// unused.
pub fn key_reads(pool: Database, writer: Writer, instance: String) -> KeyReads {
    let rows = Arc::new(Mutex::new(RequestKeys::new(pool, writer, instance)));
    GatheredReads::new(move |requests| {
        let rows = Arc::clone(&rows);
        async move {
            // Nobody else has it: one group is looked up at a time.
            let mut rows = rows.lock().await;
            find_several(&mut rows, &requests).await
        }
        .boxed()
    })
}

async fn find_several(rows: &mut RequestKeys, requests: &[RequestOf]) -> Rows<KeyState, RequestOf> {
    match within(ANSWER_MAX, Box::pin(rows.find(requests))).await {
        Ok(found) => Ok(found.into_iter().map(|(request, state)| (request, Ok(state))).collect()),
        Err(error) => {
            tracing::warn!(%error, "request keys not looked up");
            Err(LedgerError::Unavailable)
        }
    }
}

#[cfg(test)]
mod tests {
    use shop_domain::{Cents, Currency, ItemId, OrderId, OrderStatus, Quantity, UserId};
    use time::OffsetDateTime;

    use super::*;

    fn line(id: OrderId, number: u8) -> Order {
        Order {
            id: id.line(number),
            item_id: ItemId::new(1 + i64::from(number)).expect("positive"),
            user_id: UserId::new(1).expect("positive"),
            quantity: Quantity::ONE,
            amount: Cents::new(100).expect("a price"),
            currency: Currency::USD,
            status: OrderStatus::Pending,
            strategy: "mysql-batch".to_owned(),
            fence: None,
            limit_group: None,
            created_at: OffsetDateTime::UNIX_EPOCH,
            expires_at: OffsetDateTime::UNIX_EPOCH,
            extended_seconds: None,
            paid_at: None,
            line_count: Some(2),
            further: Vec::new(),
        }
    }

    /// The ledger answers for one line, and not for the other. The key may be that of this order.
    #[test]
    fn a_line_that_was_not_looked_up_is_no_other_order() {
        let id = OrderId::generate();
        let replayed = |number| Some(Outcome::Replayed(line(id, number)));
        let whole = Order { further: vec![line(id, 1)], ..line(id, 0) };
        assert_eq!(of_whole(&[replayed(0), replayed(1)]), Some(Outcome::Replayed(whole)));
        for open in [NO_LEDGER, Outcome::Unknown(Doubt::InProgress)] {
            for lines in [[replayed(0), Some(open.clone())], [Some(open.clone()), replayed(1)]] {
                assert_eq!(of_whole(&lines), Some(open.clone()));
            }
        }
        let reused = Outcome::Refused(Refusal::KeyReused { order_id: id.line(0) });
        assert_eq!(of_whole(&[replayed(0), None]), Some(reused.clone()));
        assert_eq!(of_whole(&[Some(NO_LEDGER), Some(reused.clone())]), Some(reused));
        assert_eq!(of_whole(&[None, None]), None);
    }
}
