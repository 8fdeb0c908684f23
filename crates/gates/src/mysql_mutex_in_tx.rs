//! `mysql-mutex-in-tx`: the mutex is freed before COMMIT. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! The transaction is around the mutex instead of the mutex around the transaction: BEGIN, lock,
//! SELECT, check, UPDATE to the computed number, unlock, INSERT the order, COMMIT. It comes about
//! by itself where a framework opens and ends the transaction around the method that locks.
//!
//! # What can go wrong
//! Between unlock and COMMIT the new number is in nobody's sight: the next holder reads the old
//! one, waits for the row in its own UPDATE, and writes the same number again. With the arbiter on
//! the mutex is held around the read alone, and the arbiter's condition refuses what is too much.
//!
//! # When to use it
//! Never. To remember that a guard must outlive the COMMIT.

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::kit::item_mutexes::ItemMutexes;
use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use ledger::write::{OrderWrite, StockWrite, UnguardedWrite};
use shop_domain::{ArbiterMode, Outcome, Purchase};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-mutex-in-tx",
        family: "mutex",
        breaks_with: Breaks::Alone,
        summary: "An in-process mutex around SELECT, check and UPDATE, released before COMMIT.",
        breaks_when: "The next buyer reads the stock before the previous buyer's COMMIT.",
        ..Card::USUAL
    },
    build: |context| {
        Ok(Arc::new(MysqlMutexInTx { context: context.clone(), mutexes: ItemMutexes::default() }))
    },
};

struct MysqlMutexInTx {
    context: StrategyContext,
    mutexes: ItemMutexes,
}

#[async_trait]
impl Strategy for MysqlMutexInTx {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let held = self.mutexes.lock(&purchase, buyer.deadline).await?;
        let seen = steps::read(&self.context.arbiter, &purchase, buyer.deadline).await?;
        hold!("stock-read", purchase.buyer.get());
        let written = Notify::new();
        let available = seen.available - purchase.quantity.signed();
        let first = UnguardedWrite::SetFirst { available, written: &written };
        let stock = StockWrite::of(&purchase.item, StockWrite::Guarded, first);
        if purchase.item.arbiter == ArbiterMode::On {
            written.notify_one();
        }
        let deadline = Some(buyer.deadline);
        let write = OrderWrite { purchase: &purchase, fence: None, stock, deadline };
        let mut committed = pin!(self.context.arbiter.write(&write));
        let answer = tokio::select! {
            biased;
            () = written.notified() => {
                // The mistake that this strategy shows: COMMIT is still to come.
                drop(held);
                hold!("unlocked", purchase.buyer.get());
                committed.await
            }
            answer = &mut committed => answer,
        };
        Ok(answer.unwrap_or_else(Outcome::from))
    }
}
