//! `lock-zookeeper-spin`: one lock per item: one ephemeral node that all who wait watch; read,
//! check, write.
//!
//! # How it works
//! The contender that creates the item's node has the lock. All others watch that node and try
//! again when it goes, so every release wakes one contender of every process.
//!
//! # What can go wrong
//! What can go wrong with `lock-zookeeper`. Besides, the herd: with many instances most tries are
//! in vain, and an unlucky instance may wait for long.
//!
//! # When to use it
//! With few instances; and to compare the herd with the line of `lock-zookeeper`.

use super::kit::guarded_sale::GuardedSale;
use super::kit::sale_locks::FenceCounters;
use super::{Breaks, BuildError, Card, Entry};
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-zookeeper-spin",
        breaks_with: Breaks::Never,
        summary: "One lock per item: one ephemeral node in ZooKeeper, which every waiting contender watches; under the lock the stock is read, checked and written.",
        breaks_when: "A holder is paused beyond its session. Then the arbiter compares the fences and refuses the late write of the earlier holder.",
        needs: &[Dependency::Zookeeper],
        ..Card::LOCK
    },
    build: |context| {
        let locks = context.locks.zookeeper.clone().ok_or(BuildError::NotConfigured)?;
        let fences =
            Some(FenceCounters { item: "zookeeper-spin", market: "zookeeper-spin/market" });
        Ok(GuardedSale::per_item(context, locks.spin, fences, Dependency::Zookeeper))
    },
};
