//! `lock-redis-token`: one lock per item: SET NX PX with a random owner, compare-and-delete; read, check, write.
//!
//! # How it works
//! The item's lock is one Redis key with a random owner and an expiry, set by one command; nobody
//! but its owner deletes or prolongs it. Read, check and write happen under it. It is `lock-redis`
//! without the buyer's lock, and works on the same keys.
//!
//! # What can go wrong
//! A holder that is paused beyond its lease, or a failover that forgets the key, makes two holders.
//! The fence keeps the late write out; with the arbiter off it is let in.
//!
//! # When to use it
//! When the work under the lock is more than one statement, and two clicks of one buyer may run at
//! once.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, Card, Entry};
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-token",
        breaks_with: Breaks::Never,
        summary: "One lock per item: SET NX PX with a random owner and compare-and-delete; the release notifies the next waiting process; under the lock the stock is read, checked and written.",
        source: "S1, S2, S4",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let mutex = context.locks.token.clone();
        let fences = Some(FenceCounters { item: "redis", market: "redis/market" });
        Ok(GuardedSale::per_item(context, mutex, fences, Dependency::Redis))
    },
};
