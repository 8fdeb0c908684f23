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

use super::keys::{KeyState, NotLookedUp};
use super::{NO_LEDGER, PurchaseParts, PurchaseRequest, Purchases};
use gates::Card;
use gates::redis_store::queue::QueuedRequest;
use ledger::breaker::BreakerPermit;
use shop_domain::outcome::Dependency;
use shop_domain::{
    Doubt, Item, ItemId, Order, Outcome, Purchase, Quantity, Refusal, RequestKey, Unavailable,
    UserId,
};

/// The place behind which an earlier request with the same key may be out of sight.
pub(super) enum Cover<'a> {
    /// A purchase is about to pass the strategy of this description.
    Gate(&'a Purchase, &'a Card),
    /// The request is answered with this outcome.
    Answer(&'a Outcome),
}

impl Cover<'_> {
    /// Whether the earlier request may have become an order, or may still, without being seen.
    pub(super) fn may_hide_an_order(&self) -> bool {
        match self {
            Self::Gate(purchase, card) => {
                let is_queued = purchase.item.has_queue || !card.durable_before_reply;
                purchase.key.is_from_caller() && is_queued
            }
            Self::Answer(Outcome::Refused(Refusal::KeyReused { .. })) => false,
            Self::Answer(Outcome::Refused(_)) => true,
            // It was turned away before anything was known of it, to spare the service work.
            Self::Answer(Outcome::Unavailable(why)) => *why != Unavailable::Overloaded,
            // It may have become one, with its answer still on the way.
            Self::Answer(Outcome::Unknown(doubt)) => *doubt == Doubt::InProgress,
            Self::Answer(_) => false,
        }
    }
}

/// The request whose earlier try is looked for.
struct KeyedRequest<'a> {
    buyer: UserId,
    item: ItemId,
    key: &'a RequestKey,
    quantity: Quantity,
    /// The number of lines of its order; `None` for a single purchase.
    line_count: Option<u8>,
}

impl Purchases {
    /// The answer in place of `refused`, if an earlier try of the request is an order or may become
    /// one.
    pub(super) async fn earlier(
        &self,
        request: &PurchaseRequest,
        key: &RequestKey,
        item: &Item,
        refused: &Outcome,
        line_count: Option<u8>,
    ) -> Option<Outcome> {
        let PurchaseRequest { buyer, quantity, .. } = *request;
        let keyed = KeyedRequest { buyer, item: item.id, key, quantity, line_count };
        let parts = &*self.parts;
        let is_running = parts.admission.is_running(buyer, item.id, key);
        let found = match in_ledger_or_queue(parts, &keyed, item.has_queue).await {
            None if item.has_queue => match in_queue(parts, &keyed, Permit::Needed).await {
                // The try may have moved from the queue to the ledger in between.
                None => in_ledger(parts, &keyed).await,
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

/// The answer if the request of an admitted purchase is an order already, where one may be hidden.
pub(super) async fn find(
    parts: &PurchaseParts,
    purchase: &Purchase,
    card: &Card,
) -> Option<Outcome> {
    let (key, item, line_count) = (&purchase.key, &purchase.item, purchase.line_count);
    let (buyer, quantity) = (purchase.buyer, purchase.quantity);
    let keyed = KeyedRequest { buyer, item: item.id, key, quantity, line_count };
    if !card.durable_before_reply {
        // Its script knows what is queued.
        return match in_ledger_or_queue(parts, &keyed, item.has_queue).await {
            // Too many look-ups at once say nothing about the ledger.
            Some(Outcome::Unavailable(_)) => Some(Outcome::Unavailable(Unavailable::Overloaded)),
            found => found,
        };
    }
    let needs_redis = card.needs.contains(&Dependency::Redis);
    let permit = if needs_redis { Permit::Held } else { Permit::Needed };
    in_queue(parts, &keyed, permit).await
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
    parts: &PurchaseParts,
    keyed: &KeyedRequest<'_>,
    has_queue: bool,
) -> Option<Outcome> {
    let found = in_ledger(parts, keyed).await;
    if has_queue && found == Some(Outcome::Unknown(Doubt::InProgress)) {
        match in_queue(parts, keyed, Permit::Needed).await {
            None | Some(Outcome::Unavailable(_)) => found,
            queued => queued,
        }
    } else {
        found
    }
}

async fn in_ledger(parts: &PurchaseParts, keyed: &KeyedRequest<'_>) -> Option<Outcome> {
    if parts.breakers.mysql.is_open() {
        return Some(NO_LEDGER);
    }
    match parts.keys.find(keyed.buyer, keyed.item, keyed.key.clone()).await {
        Ok(KeyState::None) => None,
        Ok(KeyState::Running) => Some(Outcome::Unknown(Doubt::InProgress)),
        Ok(KeyState::Order(order)) => Some(keyed.is(order)),
        Err(NotLookedUp) => Some(NO_LEDGER),
    }
}

async fn in_queue(
    parts: &PurchaseParts,
    keyed: &KeyedRequest<'_>,
    permit: Permit,
) -> Option<Outcome> {
    let item = keyed.item;
    let away = Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis));
    let asked = match permit {
        Permit::Held => None,
        Permit::Needed => match parts.breakers.redis.enter() {
            Some(permit) => Some(permit),
            None => return Some(away),
        },
    };
    match parts.queue.find_request(item, keyed.buyer, keyed.key).await {
        Ok(queued) => {
            asked.into_iter().for_each(BreakerPermit::answered);
            queued.map(|QueuedRequest { order, is_replicated }| match is_replicated {
                true => keyed.is(order),
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

impl KeyedRequest<'_> {
    /// The answer when the request became this order.
    fn is(&self, order: Order) -> Outcome {
        if (order.quantity, order.line_count) == (self.quantity, self.line_count) {
            Outcome::Replayed(order)
        } else {
            Outcome::Refused(Refusal::KeyReused { order_id: order.whole_id() })
        }
    }
}
