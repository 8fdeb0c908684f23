//! `lock-redis-fair`: one lock per item with a queue in Redis: processes are served in order; read,
//! check, write.
//!
//! # How it works
//! Before the item's lock stands a queue by the server's clock, with one contender per process;
//! only its head may have the lock.
//!
//! # What can go wrong
//! What can go wrong with `lock-redis-token`. Besides, a process that dies in the queue holds the
//! others up for its liveness window, and each hand-over waits for the next one's look.
//!
//! # When to use it
//! When instances of different speed must have the same share of a sale.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, Card, Entry};
use leaselock::redis::fair;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-fair",
        breaks_with: Breaks::Never,
        summary: "One lock per item with a queue in Redis, which serves the processes in order of arrival; under the lock the stock is read, checked and written.",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let redis = locks.redis.clone();
        let mutex = fair::mutex(redis, &locks.subscriber, &locks.prefix, &locks.tasks)?;
        let fences = Some(FenceCounters { item: "redis/fair", market: "redis/fair/market" });
        Ok(GuardedSale::per_item(context, mutex, fences, Dependency::Redis))
    },
};
