//! `lock-zookeeper`: one lock per item: a line of ephemeral nodes, each watching the one before it;
//! read, check, write.
//!
//! # How it works
//! The item's lock is the lowest of the ephemeral sequential nodes below its name, one per process
//! that waits. A release wakes exactly the next one. The fence is the transaction that made the
//! node.
//!
//! # What can go wrong
//! Acquire and release are writes that most of the servers keep, so it is slow; without a quorum it
//! sells nothing. A holder that is paused beyond its session is kept out by the fence; with the
//! arbiter off it is let in.
//!
//! # When to use it
//! When a ZooKeeper ensemble is there anyway, and a lock has to survive the loss of a server.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, BuildError, Card, Entry};
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-zookeeper",
        breaks_with: Breaks::Never,
        summary: "One lock per item: each contender puts an ephemeral node into a queue in ZooKeeper and watches the node before its own, and the first node holds the lock; under the lock the stock is read, checked and written.",
        breaks_when: "A holder is paused beyond its session. Then the arbiter compares the fences and refuses the late write of the earlier holder.",
        needs: &[Dependency::Zookeeper],
        ..Card::LOCK
    },
    build: |context| {
        let locks = context.locks.zookeeper.clone().ok_or(BuildError::NotConfigured)?;
        let fences = Some(FenceCounters { item: "zookeeper", market: "zookeeper/market" });
        Ok(GuardedSale::per_item(context, locks.sequential, fences, Dependency::Zookeeper))
    },
};
