//! `redis-mutex`: the Redis counter under a mutex of this process. Safe in one process only.
//!
//! # How it works
//! A mutex per item makes GET, check and SET one step within this process; the order is written
//! after that.
//!
//! # What can go wrong
//! * A second instance has a mutex of its own: the two GET the same number and both sell it.
//! * Units that are given back between a GET and its SET are lost from the counter until the
//!   reconciliation finds them: undersold, not oversold.
//! * When Redis loses the counter it comes back from the ledger, without what was on its way.
//!
//! # When to use it
//! Never: a script makes the three steps one for every process.

use std::sync::Arc;

use super::kit::item_mutexes::ItemMutexes;
use super::kit::textbook::CounterGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-mutex",
        family: "mutex",
        breaks_with: Breaks::WithTwoInstances,
        summary: "An in-process mutex around GET, check and SET.",
        breaks_when: "A second instance has a mutex of its own.",
        ..Card::REDIS
    },
    build: |context| {
        let mutexes = Some(ItemMutexes::default());
        Ok(Arc::new(CounterGate { context: context.clone(), mutexes }))
    },
};
