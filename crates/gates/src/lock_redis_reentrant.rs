//! `lock-redis-reentrant`: one lock per item: a hash of owner and entries, changed by scripts;
//! read, check, write.
//!
//! # How it works
//! The item's lock is a hash with its owner, its fence and a field per entry; scripts acquire,
//! prolong and release. The owner may enter again, which this work does not need: it pays for the
//! ability.
//!
//! # What can go wrong
//! What can go wrong with `lock-redis-token`, and the fence decides in the same way.
//!
//! # When to use it
//! When a function that locks calls another one that takes the same lock.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, Card, Entry};
use leaselock::redis::reentrant;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-reentrant",
        breaks_with: Breaks::Never,
        summary: "One lock per item: a hash with the owner, its fence and one field for each time that the owner has entered and not yet left; scripts change it; under the lock the stock is read, checked and written.",
        source: "S3, S4",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let redis = locks.redis.clone();
        let mutex = reentrant::mutex(redis, &locks.subscriber, &locks.prefix, &locks.tasks)?;
        let fences =
            Some(FenceCounters { item: "redis/reentrant", market: "redis/reentrant/market" });
        Ok(GuardedSale::per_item(context, mutex, fences, Dependency::Redis))
    },
};
