//! `lock-etcd`: one lock per item: the first key of a queue in etcd; read, check, write.
//!
//! # How it works
//! The item's lock is a queue by create revision. Who came first has it; the others watch the key
//! just ahead of their own. The arbiter compares the fence: the key's revision plus a number that
//! etcd stores.
//!
//! # What can go wrong
//! A holder that is paused beyond its lease is kept out by the fence; with the arbiter off it is
//! let in. Each acquire and each release is two writes by a quorum, so it is slower than Redis.
//!
//! # When to use it
//! When the death of the lock's server must not make two holders.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, BuildError, Card, Entry};
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-etcd",
        breaks_with: Breaks::Never,
        summary: "One lock per item: each contender puts a key into a queue in etcd and watches the key before its own, and the first key holds the lock; under the lock the stock is read, checked and written.",
        breaks_when: "A holder is paused beyond its lease. Then the arbiter compares the fences and refuses the late write of the earlier holder.",
        needs: &[Dependency::Etcd],
        ..Card::LOCK
    },
    build: |context| {
        let mutex = context.locks.etcd.clone().ok_or(BuildError::NotConfigured)?;
        let fences = Some(FenceCounters { item: "etcd", market: "etcd/market" });
        Ok(GuardedSale::per_item(context, mutex, fences, Dependency::Etcd))
    },
};
