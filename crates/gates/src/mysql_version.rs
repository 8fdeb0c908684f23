//! `mysql-version`: compare-and-set on a version column, with bounded retries.
//!
//! # How it works
//! Read `available` and `version`; write with `... AND version = <the one read>`. When somebody
//! was faster no row matches: everything is rolled back, and after a jittered pause it starts
//! again with a new read *in a new transaction* (inside the old one a snapshot could show the old
//! version for ever).
//!
//! # What can go wrong
//! Nothing is oversold: the version only rises, so there is no ABA. But of N buyers that read the
//! same version N - 1 worked for nothing: more buyers make it slower, and when the retries or the
//! time run out the answer is 503 `contended`. A version that was read long before the write is
//! always old, so only a few buyers of an item try at once and the others wait before they read; without
//! that, a thousand buyers in line for connections sell four units a second. On a replica the
//! version read may be old.
//!
//! # When to use it
//! Where conflicts are rare. Not for a hot item.

use std::sync::Arc;

use super::kit::compare_and_set::CompareAndSet;
use super::{Breaks, Card, Entry};
use ledger::write::{StockWrite, UnguardedWrite};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-version",
        family: "cas",
        breaks_with: Breaks::Never,
        summary: "Compare-and-set on a version column; losers try again in a new transaction.",
        breaks_when: "Never oversells; under load most tries are wasted and retries run out.",
        ..Card::USUAL
    },
    build: |context| {
        Ok(Arc::new(CompareAndSet::new(context, |item, seen, available| {
            let version = seen.version;
            let unguarded = UnguardedWrite::CompareVersion { available, version };
            StockWrite::of(item, StockWrite::GuardedByVersion(version), unguarded)
        })))
    },
};
