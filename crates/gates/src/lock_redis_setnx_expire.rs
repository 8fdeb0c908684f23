//! `lock-redis-setnx-expire`: one lock per item: SETNX, then EXPIRE; waiters repair a missing
//! expiry; read, check, write.
//!
//! # How it works
//! SETNX makes the key, a second command its expiry. A loser that finds no expiry sets one.
//!
//! # What can go wrong
//! An instance that dies between the two commands blocks the item until somebody waits for it, and
//! then for one more lease. There is no fence: a holder that is paused beyond its lease is kept out
//! only by the arbiter's condition on the stock.
//!
//! # When to use it
//! Never. To see why acquire and expiry must be one command.

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, Card, Entry};
use leaselock::demo::setnx_expire::{self, Repair};
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-setnx-expire",
        breaks_with: Breaks::Never,
        summary: "One lock per item: SETNX, then EXPIRE; a waiting process repairs a missing expiry; under the lock the stock is read, checked and written.",
        breaks_when: "A holder dies between SETNX and EXPIRE: the lock stays until another process waits for it. Or a holder is paused beyond its lease: there is no fence.",
        source: "S0",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let redis = locks.redis.clone();
        let repair = Repair::ByWaiters;
        let mutex = setnx_expire::mutex(redis, &locks.prefix, repair, &locks.tasks)?;
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Redis))
    },
};
