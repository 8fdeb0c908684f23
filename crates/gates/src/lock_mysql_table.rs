//! `lock-mysql-table`: one lock per item: a row with owner, fence and lease by the server's clock;
//! read, check, write.
//!
//! # How it works
//! The item's lock is a row of the table `locks`. Taking it over raises its fence, which the
//! arbiter compares in the same transaction that writes the order.
//!
//! # What can go wrong
//! Acquire and release are durable commits of their own, so it is by far the slowest lock. A holder
//! that is paused beyond its lease is kept out by the fence; with the arbiter off it is let in.
//!
//! # When to use it
//! When there is no Redis, and the work under the lock is more than one statement.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, Card, Entry};
use leaselock::mysql::table;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-mysql-table",
        breaks_with: Breaks::Never,
        summary: "One lock per item: a row with owner, fence and lease, judged by the server's clock; under the lock the stock is read, checked and written.",
        breaks_when: "A holder is paused beyond its lease. Then the arbiter compares the fences and refuses the late write of the earlier holder.",
        ..Card::LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let mutex = table::mutex(locks.mysql.for_locks().clone(), &locks.tasks);
        let fences = Some(FenceCounters { item: "mysql/table", market: "mysql/table/market" });
        Ok(GuardedSale::per_item(context, mutex, fences, Dependency::Mysql))
    },
};
