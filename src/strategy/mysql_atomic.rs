//! `mysql-atomic`: one conditional UPDATE judges and writes.
//!
//! # How it works
//! There is no gate: every purchase goes straight to the transaction whose last statement is
//! `UPDATE stock SET available = available - ? WHERE item_id = ? AND available >= ?`. The row lock
//! orders the buyers, and each is judged on the latest committed number.
//!
//! # What can go wrong
//! Nothing is oversold, whoever crashes. But the row stays locked from the UPDATE until its COMMIT
//! is on disk, so one hot item sells at most as many orders per second as commits fit after each
//! other, and a larger crowd makes it slower.
//!
//! # When to use it
//! For everything that is not hot. It is what all others are measured against.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Breaks, Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::{Bare, Write};
use crate::domain::Outcome;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-atomic",
        family: "sql",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One conditional UPDATE takes the stock if enough is left.",
        breaks_when: "Never oversells; one hot row sells one commit after the other.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| Some(Arc::new(MysqlAtomic { gear: gear.clone() })),
};

struct MysqlAtomic {
    gear: Gear,
}

impl Strategy for MysqlAtomic {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            let purchase = &request.purchase;
            let write = Write { purchase, fence: None, version_seen: None, bare: Bare::Take };
            outcome(self.gear.arbiter.write(&write).await)
        })
    }
}
