//! `mysql-unit-rows`: a row for each unit, taken with SELECT ... FOR UPDATE SKIP LOCKED.
//!
//! # How it works
//! A table has a row for each unit that may be sold now. The transaction that writes the order first locks a free row,
//! and skips those that other buyers have locked, so nobody waits for anybody. It deletes the row with the order.
//! ROLLBACK, or the end of a connection, frees the row: no lease, no job that cleans up.
//!
//! At most 1,000 units of an item have rows. A buyer who finds no free row locks the stock row, counts the rows, and
//! adds rows for units that have none; one buyer of an instance does it for all who wait. So units of cancelled and
//! expired orders, and restocks, come back without a word to this table. A restock downwards removes rows, and the
//! reconciliation removes those that are too many after sales by other strategies, and those of sales that are over.
//!
//! With the arbiter on, the last statement takes the units from the stock row under its condition, as everywhere: then
//! the hot row is back, and the unit's row is only a gate in front of it. With the arbiter off the rows alone decide,
//! and no order touches the stock row. There a taken row keeps its order until one buyer of an instance counts all of
//! them in the stock row together; the buyers are answered after that.
//!
//! # What can go wrong
//! * "No free row" is not "sold out": the rows may be locked by purchases that roll back. The stock row decides.
//! * FOR UPDATE belongs to SKIP LOCKED: without it two buyers read the same row. The condition in DELETE is a second
//!   check, so that an engine that accepts SKIP LOCKED and locks nothing does not oversell.
//! * An order of many units needs as many free rows at once; 1,000 units need the whole pool.
//! * A process that ends between an order and its count leaves a taken row. The next count has it, or the
//!   reconciliation; until then an item without an arbiter shows more units than it has.
//! * A table that only grows, or rows that are marked as sold and kept, would make each search longer than the last.
//!   So rows are deleted, and their 1,000 numbers are used again.
//!
//! # When to use it
//! Where the database has a binary log, a flush is slow, and the total may follow later: then a hot row is locked until
//! the flush ends, and buyers of single rows commit side by side (measured in `docs/strategies.md`). Here the ledger
//! keeps the total, so `mysql-batch` is the better way to share a slow commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use ledger::cache::Cache;
use ledger::rows::tables::unit_rows::{PoolChange, UnitPool, UnitRows, settle};
use ledger::write::{Conflict, OrderWrite, StockWrite, UnguardedWrite, no_ledger};
use shop_domain::{ArbiterMode, ItemId, Outcome, Purchase, Refusal, Unavailable};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-unit-rows",
        family: "sql",
        breaks_with: Breaks::Never,
        summary: "A row for each unit: SELECT ... FOR UPDATE SKIP LOCKED takes a free one, and buyers do not wait for each other.",
        breaks_when: "Never oversells; two statements more than with `mysql-atomic`, and behind an arbiter all buyers still meet at the stock row.",
        source: "ours",
        ..Card::USUAL
    },
    build: |context| {
        let pools = Cache::new(ITEMS_MAX);
        Ok(Arc::new(MysqlUnitRows { context: context.clone(), pools }))
    },
};

/// Items whose pools are known at once.
const ITEMS_MAX: usize = 100_000;
/// The longest pause before a pool whose rows are all locked is asked again.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(40);

struct MysqlUnitRows {
    context: StrategyContext,
    pools: Cache<ItemId, Arc<SharedPool>>,
}

/// The pool of an item, for the buyers of this process. One of them settles it, for all who asked before.
#[derive(Default)]
struct SharedPool {
    /// The number of times that buyers asked for it.
    asked: AtomicU64,
    last: Mutex<Option<SettledPool>>,
}

/// The result for the first `asked` questions.
#[derive(Clone, Copy)]
struct SettledPool {
    asked: u64,
    asked_at: std::time::Instant,
    pool: UnitPool,
}

#[async_trait]
impl Strategy for MysqlUnitRows {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let deadline = buyer.deadline;
        let guarded = StockWrite::GuardedAfterTable(&UnitRows);
        let stock = StockWrite::of(&purchase.item, guarded, UnguardedWrite::Table(&UnitRows));
        let write =
            OrderWrite { purchase: &purchase, fence: None, stock, deadline: Some(deadline) };
        loop {
            match self.context.arbiter.write(&write).await {
                Err(Conflict::NothingFree) => {}
                answer => {
                    let outcome = answer.unwrap_or_else(Outcome::from);
                    if purchase.item.arbiter == ArbiterMode::Off && outcome.may_hold_stock() {
                        // Without an answer, the next count has it.
                        let _ = self.settle(&purchase, PoolChange::Trim, deadline).await;
                    }
                    return Ok(outcome);
                }
            }
            let settled = self.settle(&purchase, PoolChange::Fill, deadline).await?;
            if settled.pool.left < purchase.quantity.signed() {
                let asked_at = Some(settled.asked_at);
                return Ok(Outcome::Refused(Refusal::SoldOut { asked_at }));
            }
            if !settled.pool.is_filled {
                steps::pause(deadline, LOOK_AGAIN_MAX).await?;
            }
        }
    }
}

impl MysqlUnitRows {
    /// Counts taken rows and changes the pool, or waits for the buyer who does it. What the caller has committed is in
    /// the result.
    async fn settle(
        &self,
        purchase: &Purchase,
        change: PoolChange,
        deadline: Instant,
    ) -> Result<SettledPool, Outcome> {
        let shared = self.pools.get_or_insert_with(purchase.item.id, Arc::default);
        let own = shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let _span = purchase.trace.span("unit rows");
        let work = async {
            let mut last = shared.last.lock().await;
            if let Some(settled) = last.filter(|settled| settled.asked >= own) {
                return Ok(settled);
            }
            let asked = shared.asked.load(Ordering::SeqCst);
            let asked_at = std::time::Instant::now();
            let settled = settle(&self.context.pool, purchase.item.id, change).await;
            let pool = settled.map_err(|error| no_ledger(&error))?;
            Ok(*last.insert(SettledPool { asked, asked_at, pool }))
        };
        let late = Outcome::Unavailable(Unavailable::Contended);
        timeout_at(deadline, work).await.unwrap_or(Err(late))
    }
}
