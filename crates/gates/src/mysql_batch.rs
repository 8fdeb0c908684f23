//! `mysql-batch`: one queue for all items, many waiting buyers in one durable transaction.
//!
//! # How it works
//! Every purchase is queued. While one batch is being committed the next one gathers, with a fair
//! share of each item that waits; then it is written as one transaction: the orders, the buyers'
//! limits, the movements and one UPDATE of the stock rows. Everyone is answered after the commit. A
//! duplicate, a buyer over the limit or one for whom nothing is left is refused singly. A purchase
//! for which nobody waits is a transaction of its own.
//!
//! # What can go wrong
//! Nothing is oversold: the transaction has the same conditions as a single order, so several
//! instances may have a queue. A batch is as slow as its commit, so a lone buyer waits as long as
//! with `mysql-atomic`, and no longer. If orders of an item fail, or if another transaction holds
//! its row, the item gets batches of its own until one of them is committed whole.
//!
//! # When to use it
//! For the hot item, and for thousands of items at once. A transaction is paid once per batch
//! instead of once per order, so a larger number of buyers makes it faster, not slower.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Breaks, Card, Decision, Entry, Options, Strategy, WaitingBuyer};
use ledger::write::GroupCommit;
use shop_domain::Purchase;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-batch",
        family: "batch",
        breaks_with: Breaks::Never,
        summary: "The waiting buyers of all items are in one queue, and one durable transaction writes the orders of many of them.",
        breaks_when: "Never oversells; each buyer waits for the commit of a whole batch.",
        source: "ours",
        ..Card::USUAL
    },
    build: |context| Ok(Arc::new(MysqlBatch { group_commit: context.group_commit.clone() })),
};

struct MysqlBatch {
    group_commit: GroupCommit,
}

#[async_trait]
impl Strategy for MysqlBatch {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        // The batch is the gate: what it refuses has passed no other one.
        let purchase = Purchase { counts_refusals: false, ..purchase };
        Ok(self.group_commit.write(purchase, Some(buyer.deadline)).await)
    }
}
