//! `memory-mutex`: a number in this process, under a mutex. Safe in one process only.
//!
//! # How it works
//! The stock is a variable of the process, loaded from the ledger when the item is first asked for.
//! A mutex makes reading, checking and writing it one step; the order is written after that.
//!
//! # What can go wrong
//! * Two instances behind a proxy have two variables, each with all the stock: it is sold twice.
//! * A restart loads what the ledger had, without the purchases that were on their way.
//! * It does not hear of cancellations; with the arbiter on it looks again when it has run out.
//!
//! # When to use it
//! In a program that will never run twice. To see what a second instance does to it.

use std::sync::Arc;

use super::kit::item_mutexes::ItemMutexes;
use super::kit::memory_gate::MemoryGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "memory-mutex",
        family: "mutex",
        store: "memory",
        breaks_with: Breaks::WithTwoInstances,
        summary: "A number in this process, read, checked and written under a mutex.",
        breaks_when: "A second instance has a number and a mutex of its own.",
        source: "S1, S4",
        ..Card::USUAL
    },
    build: |context| {
        let mutexes = Some(ItemMutexes::default());
        Ok(Arc::new(MemoryGate { context: context.clone(), mutexes }))
    },
};
