//! `lock-redis-getset`: one lock per item whose value is the time of its expiry, taken over by
//! GETSET; read, check, write.
//!
//! # How it works
//! SETNX with the time of expiry by the instance's own clock. A loser that reads a time which has
//! passed does GETSET, and has won if it got back what it had read.
//!
//! # What can go wrong
//! An instance whose clock runs ahead takes every hold for expired, and two read the same stock. A
//! loser covers the winner's time, who then does not recognise its own lock: everyone waits for the
//! loser's time to pass. Nothing is renewed and there is no fence.
//!
//! # When to use it
//! Never. To see why the value has to be an owner and the clock the server's.

use std::sync::Arc;

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, Card, Entry};
use leaselock::demo::getset;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-getset",
        breaks_with: Breaks::WithTwoInstances,
        summary: "One lock per item: the value of the lock's key is its expiry time; after that time another buyer takes the lock over with GETSET; under the lock the stock is read, checked and written.",
        breaks_when: "The clocks of two instances disagree: one instance regards the other's lock as expired.",
        source: "S2",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let redis = locks.redis.clone();
        let now_ms = Arc::clone(&locks.now_ms);
        let mutex = getset::mutex(redis, &locks.prefix, now_ms, &locks.tasks)?;
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Redis))
    },
};
