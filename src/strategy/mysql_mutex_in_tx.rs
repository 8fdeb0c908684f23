//! `mysql-mutex-in-tx`: the mutex is freed before COMMIT. A control: it must be caught.
//!
//! # How it works
//! The transaction is around the mutex instead of the mutex around the transaction: BEGIN, lock,
//! SELECT, check, UPDATE to the computed number, unlock, INSERT the order, COMMIT. It comes about by
//! itself where a framework opens and ends the transaction around the method that locks.
//!
//! # What can go wrong
//! Between unlock and COMMIT the new number is in nobody's sight: the next holder reads the old one,
//! waits for the row in its own UPDATE, and writes the same number again. With the arbiter on the
//! mutex is held around the read alone, and the arbiter's condition refuses what is too much.
//!
//! # When to use it
//! Never. To remember that a guard must outlive the COMMIT.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::item_mutexes::ItemMutexes;
use super::shared::ledger_view;
use super::{Breaks, Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::{Bare, Write};
use crate::domain::{ArbiterMode, Outcome};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-mutex-in-tx",
        family: "mutex",
        store: "mysql",
        safe: false,
        breaks_with: Breaks::Alone,
        summary: "An in-process mutex around SELECT, check and UPDATE, freed before COMMIT.",
        breaks_when: "The next buyer reads before the COMMIT of the one before.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| {
        Some(Arc::new(MysqlMutexInTx { gear: gear.clone(), mutexes: ItemMutexes::default() }))
    },
};

struct MysqlMutexInTx {
    gear: Gear,
    mutexes: ItemMutexes,
}

impl Strategy for MysqlMutexInTx {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            let purchase = &request.purchase;
            let mut held = match self.mutexes.lock(request).await {
                Ok(guard) => Some(guard),
                Err(outcome) => return outcome,
            };
            let seen = match ledger_view::look(&self.gear.pool, purchase).await {
                Ok(row) => row,
                Err(outcome) => return outcome,
            };
            if purchase.item.arbiter == ArbiterMode::On {
                held = None;
            }
            let bare = Bare::SetEarly { available: seen.available - purchase.quantity.signed() };
            let write = Write { purchase, fence: None, version_seen: None, bare };
            let verdict = self.gear.arbiter.write_split(&write, &mut || drop(held.take())).await;
            outcome(verdict)
        })
    }
}
