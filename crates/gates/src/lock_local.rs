//! `lock-local`: one lock per item in this process's memory; read, check, write.
//!
//! # How it works
//! Leases, owners and fences as with the other locks, in a table in memory.
//!
//! # What can go wrong
//! Two instances hold the same item at once. Their fences come from two clocks, so they
//! mean nothing to each other and are not handed on.
//!
//! # When to use it
//! With a single instance; and to see what the others pay for reaching further.

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, Card, Entry};
use leaselock::local;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-local",
        breaks_with: Breaks::WithTwoInstances,
        summary: "One lock per item in this process's memory; under the lock the stock is read, checked and written.",
        breaks_when: "A second instance has locks of its own.",
        source: "S1",
        ..Card::LOCK
    },
    build: |context| {
        let mutex = local::mutex(&local::Names::default(), &context.locks.tasks);
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Mysql))
    },
};
