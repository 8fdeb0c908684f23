//! `redis-naive`: GET, check, SET. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! Read the item's counter in Redis, compare in the program, write the computed number back, then
//! write the order. Each command is atomic; the three together are not.
//!
//! # What can go wrong
//! Two buyers read the same number and both sell it. Redis being single-threaded does not help:
//! the other buyer's GET fits between our GET and our SET.
//!
//! # When to use it
//! Never. It is the control for the Redis gates.

use std::sync::Arc;

use super::kit::textbook::CounterGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-naive",
        family: "naive",
        breaks_with: Breaks::Alone,
        summary: "GET the counter, check it in the program, SET it to the computed number.",
        breaks_when: "Two buyers read before either has written.",
        ..Card::REDIS
    },
    build: |context| Ok(Arc::new(CounterGate { context: context.clone(), mutexes: None })),
};
