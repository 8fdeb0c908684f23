//! `mysql-for-update`: SELECT ... FOR UPDATE by primary key, inside the writing transaction.
//!
//! # How it works
//! The transaction that writes the order locks the stock row, reads it under the lock, checks in
//! the program and writes the computed number. The next buyer waits at the SELECT and then reads
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

use async_trait::async_trait;

use super::{Breaks, Card, Decision, Entry, Options, Strategy, WaitingBuyer};
use ledger::write::{Arbiter, StockWrite, UnguardedWrite};
use shop_domain::Purchase;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-for-update",
        family: "sql",
        breaks_with: Breaks::Never,
        summary: "SELECT ... FOR UPDATE locks the row; the program checks the stock; then UPDATE and COMMIT.",
        breaks_when: "Never oversells; the row of a popular item stays locked for one round trip longer than with `mysql-atomic`.",
        ..Card::USUAL
    },
    build: |context| Ok(Arc::new(MysqlForUpdate { arbiter: context.arbiter.clone() })),
};

struct MysqlForUpdate {
    arbiter: Arbiter,
}

#[async_trait]
impl Strategy for MysqlForUpdate {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let guarded = StockWrite::GuardedAfterLock;
        let stock = StockWrite::of(&purchase.item, guarded, UnguardedWrite::LockRow);
        Ok(self.arbiter.sell(&purchase, stock, Some(buyer.deadline)).await)
    }
}
