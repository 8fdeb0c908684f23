//! `lock-redis-reentrant`: one lock per item: a hash of owner and entries, changed by scripts; read, check, write.
//!
//! # How it works
//! The item's lock is a hash with its owner, its fence and a field per entry; scripts acquire, prolong and
//! release. The owner may enter again, which this work does not need: it pays for the ability.
//!
//! # What can go wrong
//! What can go wrong with `lock-redis-token`, and the fence decides in the same way.
//!
//! # When to use it
//! When a function that locks calls another one that takes the same lock.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-reentrant",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: a hash of owner and entries, changed by scripts; read, check, write.",
        breaks_when: "A holder is paused beyond its lease, or Redis forgets the lock; the fence saves it.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S3, S4",
        takes_options: true,
    },
    build: |gear| {
        Some(LockBody::per_item(
            gear,
            &gear.locks.reentrant,
            Some(("redis/reentrant", "redis/reentrant/market")),
            Dependency::Redis,
        ))
    },
};
