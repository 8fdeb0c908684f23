//! The result of an earlier try with the same key, or what may still become of it.
//!
//! A refusal is for good: the key must not become an order later. So before a request with a
//! caller's key is turned away, an earlier try is looked for where it can be, in the direction in
//! which it moves: running in this process, running elsewhere, queued, in the ledger (`keys.rs`). A
//! try that moves on meanwhile is found at its next stop.
//!
//! The other way round, a try that comes to a gate must not become a second order. The arbiter's
//! unique key finds an order in the ledger. An order in a queue is not there yet, and an order that
//! a gate queues has not met the arbiter: for those two the earlier try is looked for before the
//! gate.

use super::keys::{KeyState, Looked};
use super::{LedgerParts, MOVING, PurchaseRequest, Purchases, no_ledger};
use gates::Card;
use gates::redis_store::queue::QueuedRequest;
use ledger::route::breaker::BreakerPermit;
use ledger::route::{Shards, Unreachable};
use shop_domain::outcome::Dependency;
use shop_domain::{
    Doubt, Item, Order, Outcome, Purchase, Quantity, Refusal, RequestKey, Routed, Unavailable,
    UserId,
};

/// Looks for the key of a request whose item moves again and again.
const LOOKS_MAX: u32 = 3;

/// The request whose earlier try is looked for.
struct Sought<'a> {
    buyer: UserId,
    /// Its item, by the route that was known when it was turned away.
    routed: Routed,
    key: &'a RequestKey,
    quantity: Quantity,
}

impl Purchases {
    /// The answer in place of `refused`, if an earlier try of the request is an order or may become
    /// one. `found` is its item.
    pub(super) async fn earlier(
        &self,
        request: &PurchaseRequest,
        key: &RequestKey,
        found: &Item,
        refused: &Outcome,
    ) -> Option<Outcome> {
        let PurchaseRequest { buyer, item, quantity, .. } = *request;
        let sought = Sought { buyer, routed: found.routed(), key, quantity };
        let has_queue = found.has_queue;
        let ledgers = &self.parts.ledgers;
        let is_running = ledgers.iter().any(|(_, one)| one.admission.is_in(buyer, item, key));
        let found = match in_ledger_or_queue(ledgers, &sought, has_queue).await {
            None if has_queue => match in_queue(ledgers, &sought, Permit::Needed).await {
                // The try may have moved from the queue to the ledger in between.
                None => in_ledger(ledgers, &sought).await,
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

/// Whether an earlier try of an admitted purchase may be an order that its gate would not find:
/// then [`found`] looks for it.
pub(super) fn may_be_hidden(purchase: &Purchase, card: &Card) -> bool {
    purchase.key.is_from_caller() && (purchase.item.has_queue || !card.durable_before_reply)
}

/// The answer if the request of an admitted purchase is an order already, where [`may_be_hidden`].
pub(super) async fn found(
    ledgers: &Shards<LedgerParts>,
    purchase: &Purchase,
    card: &Card,
) -> Option<Outcome> {
    let Purchase { key, buyer, quantity, item, .. } = purchase;
    let sought = Sought { buyer: *buyer, routed: item.routed(), key, quantity: *quantity };
    if !card.durable_before_reply {
        // Its script knows what is queued.
        return match in_ledger_or_queue(ledgers, &sought, item.has_queue).await {
            found if found == Some(MOVING) => found,
            // Too many look-ups at once say nothing about the ledger.
            Some(Outcome::Unavailable(_)) => Some(Outcome::Unavailable(Unavailable::Overloaded)),
            found => found,
        };
    }
    let needs_redis = card.needs.contains(&Dependency::Redis);
    let permit = if needs_redis { Permit::Held } else { Permit::Needed };
    in_queue(ledgers, &sought, permit).await
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
async fn in_ledger_or_queue(
    ledgers: &Shards<LedgerParts>,
    sought: &Sought<'_>,
    has_queue: bool,
) -> Option<Outcome> {
    let found = in_ledger(ledgers, sought).await;
    if has_queue && found == Some(Outcome::Unknown(Doubt::InProgress)) {
        match in_queue(ledgers, sought, Permit::Needed).await {
            None | Some(Outcome::Unavailable(_)) => found,
            queued => queued,
        }
    } else {
        found
    }
}

/// Looks where the item lives: rows that a move has left behind say nothing of the key.
async fn in_ledger(ledgers: &Shards<LedgerParts>, sought: &Sought<'_>) -> Option<Outcome> {
    let Routed { item, mut home } = sought.routed;
    for _ in 0..LOOKS_MAX {
        let parts = ledgers.at(home.shard);
        if parts.breakers.mysql.is_open() {
            return Some(no_ledger());
        }
        let routed = Routed { item, home };
        let looked = parts.keys.find(sought.buyer, routed, sought.key.clone()).await;
        let Ok(Looked { state, home_epoch }) = looked else { return Some(no_ledger()) };
        match ledgers.moved_since(item, home, home_epoch).await {
            Ok(Some(now)) => home = now,
            Ok(None) => {
                return match state {
                    KeyState::None => None,
                    KeyState::Running => Some(Outcome::Unknown(Doubt::InProgress)),
                    KeyState::Order(order) => Some(sought.is(order)),
                };
            }
            Err(Unreachable) => return Some(no_ledger()),
        }
    }
    Some(MOVING)
}

async fn in_queue(
    ledgers: &Shards<LedgerParts>,
    sought: &Sought<'_>,
    permit: Permit,
) -> Option<Outcome> {
    let Routed { item, home } = sought.routed;
    let parts = ledgers.at(home.shard);
    let away = Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis));
    let asked = match permit {
        Permit::Held => None,
        Permit::Needed => match parts.breakers.redis.enter() {
            Some(permit) => Some(permit),
            None => return Some(away),
        },
    };
    match parts.queue.find_request(item, sought.buyer, sought.key).await {
        Ok(queued) => {
            asked.into_iter().for_each(BreakerPermit::answered);
            queued.map(|QueuedRequest { order, is_replicated }| match is_replicated {
                true => sought.is(order),
                false => Outcome::Unknown(Doubt::TooFewReplicas),
            })
        }
        Err(error) => {
            asked.into_iter().for_each(BreakerPermit::failed);
            tracing::warn!(%error, %item, "request key not looked up in the queue");
            Some(away)
        }
    }
}

impl Sought<'_> {
    /// The answer when the request became this order.
    fn is(&self, order: Order) -> Outcome {
        if order.quantity == self.quantity {
            Outcome::Replayed(order)
        } else {
            Outcome::Refused(Refusal::KeyReused { order_id: order.id })
        }
    }
}
