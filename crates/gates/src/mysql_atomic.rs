//! `mysql-atomic`: one conditional UPDATE checks and writes.
//!
//! # How it works
//! There is no gate: every purchase goes straight to the transaction whose last statement is
//! `UPDATE stock SET available = available - ? WHERE item_id = ? AND available >= ?`. The row lock
//! orders the buyers, and each is checked against the latest committed number.
//!
//! # What can go wrong
//! Nothing is oversold, whatever crashes. But the row stays locked from the UPDATE until its COMMIT,
//! and with a binary log until that is on disk. So one hot item sells at most as many orders per
//! second as commits fit after each other, and more buyers make it slower.
//!
//! # When to use it
//! For everything that is not hot. It is what all others are measured against.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Breaks, Card, Decision, Entry, Options, Strategy, WaitingBuyer};
use ledger::write::{Arbiter, StockWrite};
use shop_domain::Purchase;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-atomic",
        family: "sql",
        breaks_with: Breaks::Never,
        summary: "One conditional UPDATE takes the stock if enough is left.",
        breaks_when: "Never oversells; all purchases of a popular item update the same row, so their commits run one after the other.",
        ..Card::USUAL
    },
    build: |context| {
        let arbiter = context.arbiter.clone();
        Ok(Arc::new(MysqlAtomic { arbiter, stock: StockWrite::Guarded }))
    },
};

/// An acceptance of an offer, which has another condition: the unit is offered to this buyer, who waited. It is not on
/// the list, since nobody can choose it.
pub(super) const OFFERS: Entry = Entry {
    card: &Card {
        name: "waiting-list",
        summary: "Takes the unit that is offered to the buyer.",
        breaks_when: "Never oversells.",
        source: "ours",
        ..*ENTRY.card
    },
    build: |context| {
        let arbiter = context.arbiter.clone();
        Ok(Arc::new(MysqlAtomic { arbiter, stock: StockWrite::Offered }))
    },
};

struct MysqlAtomic {
    arbiter: Arbiter,
    stock: StockWrite<'static>,
}

#[async_trait]
impl Strategy for MysqlAtomic {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        Ok(self.arbiter.sell(&purchase, self.stock, Some(buyer.deadline)).await)
    }
}
