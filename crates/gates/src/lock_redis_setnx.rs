//! `lock-redis-setnx`: one lock per item: SETNX without an expiry; read, check, write.
//!
//! # How it works
//! SETNX makes the key, and its owner deletes it. Nothing else ends a hold.
//!
//! # What can go wrong
//! An instance that is killed while it holds the lock blocks the item for ever: every later buyer
//! is told `contended`. It does not oversell, it stops selling.
//!
//! # When to use it
//! Never. To see what an expiry is for.

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, Card, Entry};
use leaselock::demo::setnx;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-setnx",
        breaks_with: Breaks::Never,
        summary: "One lock per item: SETNX without an expiry; under the lock the stock is read, checked and written.",
        breaks_when: "The holder dies: the item is never sold again until an operator deletes the key.",
        source: "S0, S4",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let mutex = setnx::mutex(locks.redis.clone(), &locks.prefix, &locks.tasks)?;
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Redis))
    },
};
