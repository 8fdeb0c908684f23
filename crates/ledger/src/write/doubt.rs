//! What became of a write whose answer was lost: the ledger's rows tell.
//!
//! With several ledgers they tell it of an item only while it lives here: it may have moved with its orders.

use super::{Answer, Arbiter, LOST_COMMIT_READS_MAX, UNANSWERED, pause, replay, transaction};
use crate::rows::stock;
use shop_domain::{Order, Outcome, Purchase};

impl Arbiter {
    /// Finds out what became of a COMMIT whose answer was lost: `Some(Some(order))` it happened,
    /// `Some(None)` it did not and never will, `None` the ledger cannot be asked.
    ///
    /// The read locks, so it waits for a transaction that still holds the row: a COMMIT that is
    /// only slow is not mistaken for one that failed.
    pub(super) async fn recover_lost_commit(&self, purchase: &Purchase) -> Option<Option<Order>> {
        self.metrics.arbiter_commits_lost.inc();
        let _span = purchase.trace.span("recovery of a lost COMMIT");
        for attempt in 1..=LOST_COMMIT_READS_MAX {
            match transaction::find_locking(&self.pool, purchase).await {
                // The item has moved, with the order if there is one.
                Ok(None) if !self.is_still_here(purchase).await => return None,
                Ok(found) => return Some(found),
                Err(error) => {
                    tracing::warn!(%error, order = %purchase.order_id, "result of a lost COMMIT not known yet");
                }
            }
            pause(attempt + 2).await;
        }
        None
    }

    /// The answer of a try after a call of the same order was lost. The order's key lets only one of
    /// them count, so an order that is there is the answer. Any other answer says nothing about the
    /// call, which may still run.
    pub(super) async fn doubt(&self, purchase: &Purchase, answer: Answer) -> Answer {
        if matches!(answer, Ok(Outcome::Sold(_) | Outcome::Replayed(_))) {
            return answer;
        }
        let found = Box::pin(self.recover_lost_commit(purchase)).await.flatten();
        Ok(found.map_or(UNANSWERED, |order| replay(purchase, order)))
    }

    /// Whether the item of a purchase has not moved, as far as the ledger says so.
    async fn is_still_here(&self, purchase: &Purchase) -> bool {
        let home = purchase.item.home;
        let routed = purchase.item.routed();
        home.is_only || stock::read_routed(&self.pool, routed).await.is_ok()
    }
}
