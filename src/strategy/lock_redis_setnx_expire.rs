//! `lock-redis-setnx-expire`: one lock per item: SETNX, then EXPIRE; waiters repair a missing expiry; read, check, write.
//!
//! # How it works
//! SETNX makes the key, a second command its expiry. A loser that finds no expiry sets one.
//!
//! # What can go wrong
//! An instance that dies between the two commands blocks the item until somebody waits for it, and then
//! for one more lease. There is no fence: a holder that is paused beyond its lease is kept out only by
//! the arbiter's condition on the stock.
//!
//! # When to use it
//! Never. To see why acquire and expiry must be one command.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis-setnx-expire",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: SETNX, then EXPIRE; waiters repair a missing expiry; read, check, write.",
        breaks_when: "The winner dies between its two commands, and nobody waits; or it is paused beyond its lease, without a fence.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S0",
        takes_options: true,
    },
    build: |gear| Some(LockBody::per_item(gear, &gear.locks.setnx_expire, None, Dependency::Redis)),
};
