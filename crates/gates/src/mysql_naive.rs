//! `mysql-naive`: read, check, write back what the program computed. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! `SELECT available`, compare in the program, `UPDATE stock SET available = <computed>`. Between
//! the two, any number of others read the same number.
//!
//! # What can go wrong
//! Two buyers read 1, both sell, both write 0: one unit is sold twice, and the stock row shows
//! nothing of it. With the arbiter on, its condition refuses the second.
//!
//! # When to use it
//! Never. To see what overselling looks like, and to check that a checker notices it.

use std::sync::Arc;

use super::kit::textbook::LedgerGate;
use super::{Breaks, Card, Entry};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-naive",
        family: "naive",
        breaks_with: Breaks::Alone,
        summary: "SELECT the stock, check it in the program, UPDATE it to the computed number.",
        breaks_when: "Two buyers read before either has written.",
        ..Card::USUAL
    },
    build: |context| Ok(Arc::new(LedgerGate { context: context.clone(), mutexes: None })),
};
