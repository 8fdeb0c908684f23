//! `mysql-for-update`: SELECT ... FOR UPDATE by primary key, inside the writing transaction.
//!
//! # How it works
//! The transaction that writes the order locks the stock row, reads it under the lock, checks in the
//! program and writes the computed number. Whoever comes next waits at the SELECT and then reads
//! what was committed. The lock goes with the COMMIT, or with the connection if its holder dies.
//!
//! # What can go wrong
//! * Nothing is oversold, as long as every writer locks the row first: a plain SELECT goes past it.
//! * Outside a transaction the lock is gone before the answer arrives.
//! * Not by primary key, it locks what it walks over, up to the whole table.
//! * Rows locked in different orders make deadlocks; here the stock row is always the last.
//! * The hot row stays locked for one round trip more than `mysql-atomic` needs.
//!
//! # When to use it
//! When the decision takes more than a comparison that SQL can make. Otherwise `mysql-atomic`.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Breaks, Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::{Bare, Write};
use crate::domain::Outcome;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-for-update",
        family: "sql",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "SELECT ... FOR UPDATE locks the row; check in the program, UPDATE, COMMIT.",
        breaks_when: "Never oversells; the hot row is locked for a round trip more.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| Some(Arc::new(MysqlForUpdate { gear: gear.clone() })),
};

struct MysqlForUpdate {
    gear: Gear,
}

impl Strategy for MysqlForUpdate {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            let purchase = &request.purchase;
            let write = Write { purchase, fence: None, version_seen: None, bare: Bare::LockRow };
            outcome(self.gear.arbiter.write(&write).await)
        })
    }
}
