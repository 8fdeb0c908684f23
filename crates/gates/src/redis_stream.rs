//! `redis-stream`: one script takes the units and queues the order, which becomes durable after the answer.
//!
//! # How it works
//! The script of `redis-lua`, and in the same step an entry in the item's stream: either both or
//! neither. The buyer is answered 202 with an order in state `queued`, whose id is final. A
//! consumer group (`src/consumer`) hands the orders to the arbiter and takes each out of the stream
//! after its COMMIT. The buyer learns the result from the order's address and its events:
//! `pending`, or `rejected` when the ledger refuses it; then its units go back to the counter.
//!
//! A retry of a request is answered with the order that it was queued as, for as long as it is in
//! the queue; after that the ledger has it, and is read before an order is queued
//! (`src/purchase/earlier.rs`). The buyer's limit counts the units in the ledger and the units in
//! the queue, so that a 202 is seldom followed by a refusal.
//!
//! # What can go wrong
//! * 202 promises what Redis keeps. Without an append-only file a crash loses every queued order;
//!   with `appendfsync everysec` a crash of the machine, or of Redis while the disk is slow, loses
//!   up to about two seconds of them; with `always` it loses none, but a failover to a replica may.
//!   Nothing is oversold by it, and the audit against the clients' record shows them as lost.
//!   `/api/strategies` shows what this Redis promises.
//!   With `queue.replicas_min` 202 waits until that many replicas have the order. When they do not in
//!   time, the outcome is unknown, as the order is in the queue of one server; while they are known
//!   to be away, nothing is queued, and the answer is 503. An order that still waits for its turn to be
//!   sent at the deadline is not queued either.
//! * The consumers fall behind: the queue is bounded, and one more is refused with "try again".
//! * A consumer dies: another one takes its orders over, a few seconds later.
//!
//! # When to use it
//! When the peak is far above what the ledger takes, and buyers may wait for the result. It is the
//! queue that smooths the peak.

use std::sync::Arc;

use async_trait::async_trait;
use redis_connection::{is_not_sent, is_too_few_replicas};
use tokio::time::Instant;

use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use crate::redis_store::CounterError;
use crate::redis_store::queue::{self, Push};
use ledger::rows::{buyers, orders};
use shop_domain::outcome::Dependency;
use shop_domain::{
    ArbiterMode, Doubt, OrderId, OrderStatus, Outcome, Purchase, Refusal, Unavailable,
};

/// Its name, which the consumers write into the orders.
pub const NAME: &str = "redis-stream";

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: NAME,
        family: "queue",
        breaks_with: Breaks::Never,
        summary: "One script takes the units and queues the order, which a consumer makes durable.",
        breaks_when: "Redis loses the queue: without an append-only file all queued orders are lost; with appendfsync everysec, about two seconds of them.",
        durable_before_reply: false,
        source: "ours",
        ..Card::REDIS
    },
    build: |context| Ok(Arc::new(RedisStream { context: context.clone() })),
};

struct RedisStream {
    context: StrategyContext,
}

#[async_trait]
impl Strategy for RedisStream {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        loop {
            let limit = self.limit_left(&purchase, buyer.deadline).await?;
            let pushed = {
                let _span = purchase.trace.span("queue push");
                self.context.queue.push(&purchase, limit, buyer.deadline).await
            };
            match pushed {
                Ok(Push::Queued { is_replicated: true }) => {
                    return Ok(Outcome::Queued(purchase.order(OrderStatus::Queued, None)));
                }
                // It is in one server's queue, and a failover may lose it: 202 would promise too much.
                Ok(Push::Queued { is_replicated: false }) => {
                    let order = purchase.order_id;
                    tracing::warn!(%order, "order queued, and too few replicas have it in time");
                    return Ok(Outcome::Unknown(Doubt::TooFewReplicas));
                }
                Ok(Push::Known { order, units, is_replicated }) => {
                    return match self.known(&purchase, order, units, buyer.deadline).await {
                        Ok(Outcome::Replayed(order))
                            if order.status == OrderStatus::Queued && !is_replicated =>
                        {
                            Ok(Outcome::Unknown(Doubt::TooFewReplicas))
                        }
                        decided => decided,
                    };
                }
                Ok(Push::LimitReached) => {
                    let limit = purchase.item.per_buyer_limit;
                    return Ok(Outcome::Refused(Refusal::LimitReached { limit }));
                }
                Ok(Push::Full) => return Ok(Outcome::Unavailable(Unavailable::Overloaded)),
                Ok(Push::NothingLeft) => {}
                // It may be in the queue; a retry with the key finds out.
                Err(CounterError::Redis(error)) if queue::is_unknown(&error) => {
                    tracing::warn!(%error, order = %purchase.order_id, "unknown whether an order was queued");
                    return Ok(Outcome::Unknown(Doubt::Unanswered(Dependency::Redis)));
                }
                // Redis answers, and nothing was queued.
                Err(CounterError::Redis(error)) if is_too_few_replicas(&error) => {
                    tracing::warn!(%error, "order not queued: too few replicas follow");
                    return Ok(Outcome::Unavailable(Unavailable::Faulty(Dependency::Redis)));
                }
                // Redis answers, and the orders before this one took too long.
                Err(CounterError::Redis(error)) if is_not_sent(&error) => {
                    return Ok(Outcome::Unavailable(Unavailable::Contended));
                }
                Err(error) => return Err(error.into()),
            }
            steps::sold_out(&self.context, &purchase, buyer.deadline).await?;
        }
    }
}

impl RedisStream {
    /// Units that the buyer may still have, according to the ledger; `None` where no limit is kept.
    async fn limit_left(
        &self,
        purchase: &Purchase,
        deadline: Instant,
    ) -> Result<Option<i64>, Outcome> {
        if purchase.item.arbiter == ArbiterMode::Off {
            return Ok(None);
        }
        let read = buyers::bought(&self.context.pool, purchase.item.id, purchase.buyer);
        let bought = steps::in_time(deadline, read).await?;
        Ok(Some((i64::from(purchase.item.per_buyer_limit) - bought).max(0)))
    }

    /// Answers a request of which an earlier try was queued as `order`.
    async fn known(
        &self,
        purchase: &Purchase,
        order: OrderId,
        units: u32,
        deadline: Instant,
    ) -> Decision {
        if units != purchase.quantity.units() {
            return Ok(Outcome::Refused(Refusal::KeyReused { order_id: order }));
        }
        match self.context.queue.find_in(purchase.item.id, order).await {
            Ok(Some(queued)) => return Ok(Outcome::Replayed(queued)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "queued order not read");
                return Ok(Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis)));
            }
        }
        let find = orders::find(&self.context.pool, order, purchase.buyer);
        let decided = steps::in_time(deadline, find).await?;
        // None: Redis has lost it, and not the memory of it.
        Ok(decided.map_or(Outcome::Unknown(Doubt::BrokenOff), Outcome::Replayed))
    }
}
