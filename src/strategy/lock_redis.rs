//! `lock-redis`, the main one: the buyer's lock without waiting, then the item's lock, waiting.
//!
//! # How it works
//! 1. The buyer's lock is *tried*: a buyer whose other click is still running is answered 409
//!    `request_in_progress` at once.
//! 2. The item's lock is *waited for*, first come first served inside this process. The order of
//!    the two is fixed, so that no two buyers can wait for each other.
//! 3. Under both: read the stock, check, write. Both locks are leases with a random owner, renewed
//!    while they are held and released by compare-and-delete; the item's lock carries a fence,
//!    which the arbiter raises in the same transaction.
//!
//! The requests of this process that wait for the item's lock need the same work, so one of them
//! takes the lock and does the work of all in one transaction (`kit/combined_sale.rs`): one hold
//! for a batch instead of one hold for an order. With another `store` or `wait`, or with the
//! arbiter off, each has a hold of its own.
//!
//! `store=redis` guards the counter in Redis instead of the stock row; `scope` chooses what is
//! locked: `market`, `item`, `user`, or `item-user` (both, the default).
//!
//! # What can go wrong
//! * A holder that is paused beyond its lease does not know that another one holds the lock now.
//!   The fence keeps its late write out; with the arbiter off it is let in.
//! * A failover of Redis may forget the lock: two holders, and again the fence decides.
//! * `scope=user` does not guard the stock at all, only the buyer's clicks.
//!
//! # When to use it
//! When the work under the lock is more than one statement. To take stock alone, `mysql-atomic`
//! does the same with one round trip fewer.

use std::sync::Arc;

use super::kit::combined_sale::CombinedSale;
use super::kit::guarded_sale::GuardedSale;
use super::kit::options::Scope;
use super::kit::sale_locks::{FenceCounters, SaleLocks};
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;
use leaselock::redis::plain;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "Tries the buyer's lock without waiting, then waits for the item's lock; under both it reads the stock, checks it and writes.",
        breaks_when: "A holder is paused beyond its lease, or Redis forgets the lock; the arbiter then refuses its late write by the fence.",
        needs: &[Dependency::Redis],
        durable_before_reply: true,
        source: "S0, S1, S2, S3, S4",
        takes_options: true,
    },
    build: |context| {
        let locks = &context.locks;
        let buyers = plain::mutex(locks.redis.clone(), &locks.prefix, &locks.tasks)?;
        Ok(Arc::new(GuardedSale {
            context: context.clone(),
            locks: SaleLocks {
                mutex: Arc::clone(&locks.token),
                buyers: Arc::new(buyers),
                fences: Some(FenceCounters { item: "redis", market: "redis/market" }),
                dependency: Dependency::Redis,
                lease: context.lease,
            },
            scope: Scope::ItemUser,
            combined: Some(CombinedSale::new(context, &locks.token, "redis")),
        }))
    },
};
