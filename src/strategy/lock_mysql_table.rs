//! `lock-mysql-table`: one lock per item: a row with owner, fence and lease by the server's clock; read, check, write.
//!
//! # How it works
//! The item's lock is a row of the table `locks`. Taking it over raises its fence, which the arbiter
//! compares in the same transaction that writes the order.
//!
//! # What can go wrong
//! Acquire and release are durable commits of their own, so it is by far the slowest lock. A holder that
//! is paused beyond its lease is kept out by the fence; with the arbiter off it is let in.
//!
//! # When to use it
//! When there is no Redis, and the work under the lock is more than one statement.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-mysql-table",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: a row with owner, fence and lease by the server's clock; read, check, write.",
        breaks_when: "A holder is paused beyond its lease; the fence saves it.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: true,
    },
    build: |gear| {
        Some(LockBody::per_item(
            gear,
            &gear.locks.table,
            Some(("mysql/table", "mysql/table/market")),
            Dependency::Mysql,
        ))
    },
};
