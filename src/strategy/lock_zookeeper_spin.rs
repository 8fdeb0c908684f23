//! `lock-zookeeper-spin`: one lock per item: one ephemeral node that all who wait watch; read, check, write.
//!
//! # How it works
//! Whoever creates the item's node has the lock. All others watch that node and try again when it
//! goes, so every release wakes one contender of every process.
//!
//! # What can go wrong
//! What can go wrong with `lock-zookeeper`. Besides, the herd: with many instances most tries are in
//! vain, and an unlucky instance may wait for long.
//!
//! # When to use it
//! With few instances; and to compare the herd with the line of `lock-zookeeper`.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-zookeeper-spin",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: one ephemeral node that all who wait watch; read, check, write.",
        breaks_when: "A holder is paused beyond its session; the fence saves it.",
        needs: &["zookeeper"],
        durable_before_reply: true,
        source: "S4",
        takes_options: true,
    },
    build: |gear| {
        Some(LockBody::per_item(
            gear,
            gear.locks.zookeeper_spin.as_ref()?,
            Some(("zookeeper-spin", "zookeeper-spin/market")),
            Dependency::Zookeeper,
        ))
    },
};
