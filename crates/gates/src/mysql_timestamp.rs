//! `mysql-timestamp`: compare-and-set on a timestamp. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! As `mysql-version`, but what is compared is when the row was last written: `... AND changed_at =
//! <the one read>`. The column is a DATETIME in whole seconds, as textbooks have it.
//!
//! # What can go wrong
//! Two writes in one second leave the same timestamp, so a number that was read before the first of
//! them still passes the comparison after it, and a unit is sold twice. Finer ticks make it rarer
//! and not impossible; and a clock that is set back brings old timestamps back. With the arbiter
//! on, its condition refuses what is too much.
//!
//! # When to use it
//! Never. A version that counts does the same and cannot repeat.

use std::sync::Arc;

use super::kit::compare_and_set::CompareAndSet;
use super::{Breaks, Card, Entry};
use ledger::write::{StockWrite, UnguardedWrite};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-timestamp",
        family: "cas",
        breaks_with: Breaks::Alone,
        summary: "Compare-and-set on a timestamp in whole seconds; losers try again.",
        breaks_when: "Two writes have the same timestamp: the later one does not notice the earlier one.",
        ..Card::USUAL
    },
    build: |context| {
        Ok(Arc::new(CompareAndSet::new(context, |item, seen, available| {
            let changed_at = seen.changed_at;
            let unguarded = UnguardedWrite::CompareTimestamp { available, changed_at };
            StockWrite::of(item, StockWrite::GuardedByTimestamp(changed_at), unguarded)
        })))
    },
};
