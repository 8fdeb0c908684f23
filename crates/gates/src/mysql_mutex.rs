//! `mysql-mutex`: the stock row under a mutex of this process. Safe in one process only.
//!
//! # How it works
//! A mutex per item is held from before the SELECT until after the COMMIT, so that within this
//! process one purchase runs at a time: read, check, UPDATE to the computed number.
//!
//! # What can go wrong
//! * A second instance has a mutex of its own: the two read the same number and both sell it.
//! * The guard must outlive the COMMIT. Here the purchase runs on a task of its own, so a buyer who
//!   hangs up does not free it half-way.
//! * One purchase after the other, each with four round trips and a commit: slow.
//!
//! # When to use it
//! Never for stock. To see that a mutex protects a process and not a database.

use std::sync::Arc;

use super::kit::item_mutexes::ItemMutexes;
use super::kit::textbook::LedgerGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-mutex",
        family: "mutex",
        breaks_with: Breaks::WithTwoInstances,
        summary: "An in-process mutex around SELECT, check, UPDATE and COMMIT.",
        breaks_when: "A second instance has a mutex of its own.",
        ..Card::USUAL
    },
    build: |context| {
        let mutexes = Some(ItemMutexes::default());
        Ok(Arc::new(LedgerGate { context: context.clone(), mutexes }))
    },
};
