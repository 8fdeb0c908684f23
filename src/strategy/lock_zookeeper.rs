//! `lock-zookeeper`: one lock per item: a line of ephemeral nodes, each watching the one before it; read, check, write.
//!
//! # How it works
//! The item's lock is the lowest of the ephemeral sequential nodes below its name, one per process that
//! waits. A release wakes exactly the next one. The fence is the transaction that made the node.
//!
//! # What can go wrong
//! Acquire and release are writes that most of the servers keep, so it is slow; without a quorum it
//! sells nothing. A holder that is paused beyond its session is kept out by the fence; with the
//! arbiter off it is let in.
//!
//! # When to use it
//! When a ZooKeeper ensemble is there anyway, and a lock has to survive the loss of a server.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-zookeeper",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: a line of ephemeral nodes, each watching the one before it; read, check, write.",
        breaks_when: "A holder is paused beyond its session; the fence saves it.",
        needs: &["zookeeper"],
        durable_before_reply: true,
        source: "S4",
        takes_options: true,
    },
    build: |gear| {
        Some(LockBody::per_item(
            gear,
            gear.locks.zookeeper.as_ref()?,
            Some(("zookeeper", "zookeeper/market")),
            Dependency::Zookeeper,
        ))
    },
};
