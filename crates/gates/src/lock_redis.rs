//! `lock-redis`, the main lock strategy: tries the buyer's lock, then waits for the item's lock.
//!
//! # How it works
//! 1. The strategy *tries* the buyer's lock. If another request of this buyer holds it, the answer
//!    is 409 `request_in_progress` at once.
//! 2. The strategy *waits* for the item's lock, first come first served inside this process. Every
//!    request takes the two locks in this sequence, so no two buyers can wait for each other.
//! 3. Under both locks it reads the stock, checks it and writes. Each lock has a lease and a random
//!    owner token. It is renewed while it is held, and released by compare-and-delete. The item's
//!    lock also has a fence, which the arbiter stores in the transaction of the order.
//!
//! The requests of this process that wait for the item's lock need the same work. So one of them
//! takes the lock and writes the orders of all in one transaction (`kit/combined_sale.rs`). With
//! another `store` or `wait`, or with the arbiter off, each request takes the lock by itself.
//!
//! `store=redis` guards the counter in Redis instead of the stock row; `scope` chooses what is
//! locked: `market`, `item`, `user`, or `item-user` (both, the default).
//!
//! # What can go wrong
//! * A holder that is paused beyond its lease does not know that another request has the lock now.
//!   The fence refuses its late write. With the arbiter off nothing refuses it.
//! * A failover of Redis may forget the lock. Then there are two holders, and again the fence
//!   refuses the earlier one.
//! * `scope=user` does not guard the stock. It only keeps two requests of one buyer apart.
//!
//! # When to use it
//! When the work under the lock is more than one statement. If the work is only to take stock,
//! `mysql-atomic` does it with one round trip fewer.

use std::sync::Arc;

use super::kit::combined_sale::CombinedSale;
use super::kit::guarded_sale::GuardedSale;
use super::kit::options::Scope;
use super::kit::sale_locks::{FenceCounters, SaleLocks};
use super::{Breaks, Card, Entry};
use leaselock::redis::plain;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis",
        breaks_with: Breaks::Never,
        summary: "Tries the buyer's lock without waiting, then waits for the item's lock; under both it reads the stock, checks it and writes.",
        source: "S0, S1, S2, S3, S4",
        ..Card::REDIS_LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let buyers = plain::mutex(locks.redis.clone(), &locks.prefix, &locks.tasks)?;
        Ok(Arc::new(GuardedSale {
            context: context.clone(),
            locks: SaleLocks {
                mutex: locks.token.clone(),
                buyers,
                fences: Some(FenceCounters { item: "redis", market: "redis/market" }),
                dependency: Dependency::Redis,
                lease: context.lease,
            },
            scope: Scope::ItemUser,
            combined: Some(CombinedSale::new(context, locks.token.clone(), "redis")),
        }))
    },
};
