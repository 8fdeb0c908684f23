//! Optimistic writing: read, compute, write if nothing changed since, otherwise start again.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::item_turns::ItemTurns;
use super::steps;
use crate::{Decision, Options, Strategy, StrategyContext, WaitingBuyer};
use ledger::rows::items::StockRow;
use ledger::write::{Answer, Conflict, OrderWrite, StockWrite};
use shop_domain::{Item, Outcome, Purchase, Unavailable};

/// Tries of one purchase.
const TRIES_MAX: u32 = 200;
/// Purchases of one item that try at once in this process.
const TRYING_MAX: usize = 8;
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(30);

/// Makes the statement that compares from the item, its stock row as it was read, and the units
/// that will be left.
type Comparison = fn(&Item, &StockRow, i64) -> StockWrite<'static>;

/// Compare-and-set on the stock row.
pub struct CompareAndSet {
    context: StrategyContext,
    turns: ItemTurns,
    comparison: Comparison,
}

impl CompareAndSet {
    /// Writes with the statement that `comparison` makes.
    pub fn new(context: &StrategyContext, comparison: Comparison) -> Self {
        Self { context: context.clone(), turns: ItemTurns::new(TRYING_MAX), comparison }
    }

    /// # Errors
    /// The outcome when nothing was tried.
    async fn try_once(&self, purchase: &Purchase, deadline: Instant) -> Result<Answer, Outcome> {
        let seen = steps::read(&self.context.arbiter, purchase, deadline).await?;
        hold!("stock-read", purchase.buyer.get());
        let available = seen.available - purchase.quantity.signed();
        let stock = (self.comparison)(&purchase.item, &seen, available);
        let write = OrderWrite { purchase, fence: None, stock, deadline: Some(deadline) };
        Ok(self.context.arbiter.write(&write).await)
    }
}

#[async_trait]
impl Strategy for CompareAndSet {
    /// Tries until the write meets the row that was read, each time in a new transaction; gives up
    /// at the deadline.
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        for _ in 0..TRIES_MAX {
            let turn = self.turns.wait(purchase.item.id, buyer.deadline).await;
            let Some(turn) = turn else { break };
            let answer = self.try_once(&purchase, buyer.deadline).await?;
            drop(turn);
            if answer != Err(Conflict::Stale) {
                return Ok(answer.unwrap_or_else(Outcome::from));
            }
            steps::pause(buyer.deadline, PAUSE_MAX).await?;
        }
        Ok(Outcome::Unavailable(Unavailable::Contended))
    }
}
