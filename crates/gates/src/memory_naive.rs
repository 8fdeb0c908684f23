//! `memory-naive`: read, check, write a number in this process. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! The stock is a variable of the process, loaded from the ledger when the item is first asked for.
//! Read it, compare, write it back one lower, then write the order. No network lies between the
//! read and the write, only whatever lets another buyer run: a pause, a log line, another core.
//!
//! # What can go wrong
//! * Two buyers read the same number and both sell it.
//! * Every instance has a variable of its own, each with all the stock.
//! * It is gone with the process, and does not hear of cancellations.
//!
//! # When to use it
//! Never. It shows that being close together does not make two steps one.

use std::sync::Arc;

use super::kit::memory_gate::MemoryGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "memory-naive",
        family: "naive",
        store: "memory",
        breaks_with: Breaks::Alone,
        summary: "Read a number in this process, check it, write it back lower.",
        breaks_when: "Two buyers read before either has written.",
        ..Card::USUAL
    },
    build: |context| Ok(Arc::new(MemoryGate { context: context.clone(), mutexes: None })),
};
