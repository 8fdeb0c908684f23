//! The transactions of the waiting lists.

use super::{JoinRefusal, LineChange, WaitingLine};
use crate::rows::account::erased;
use crate::sql::transact;
use crate::work::item_concurrency::ItemPermit;
use crate::work::{Ledger, RetryPolicy, stock_lock};
use shop_domain::{Item, ItemId, LedgerError, Place, UserId};

/// Writes the waiting lists. Joining and leaving are idempotent, so a lost COMMIT is tried again too. Clones share
/// everything.
#[derive(Clone)]
pub struct Waitlist {
    pub ledger: Ledger,
    pub line: WaitingLine,
}

impl Waitlist {
    /// Puts a buyer at the end of an item's line, or returns the place that the buyer has. Beside a new place
    /// in a long line stands the number of buyers in front of it.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn join(
        &self,
        item: &Item,
        buyer: UserId,
    ) -> Result<Result<(Place, Option<u64>), JoinRefusal>, LedgerError> {
        let permit = self.ledger.permit(item.id).await?;
        let joined = self.ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(self.line.join(transaction, &permit, item, buyer))
        });
        joined.await
    }

    /// Takes a buyer out of an item's line; the unit of an open offer goes to the next one. Returns `None`
    /// when the buyer has no place.
    ///
    /// # Errors
    /// As for [`Waitlist::join`].
    pub async fn leave(
        &self,
        item: ItemId,
        buyer: UserId,
    ) -> Result<Option<LineChange>, LedgerError> {
        let permit = self.ledger.permit(item).await?;
        let left = self.ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(self.line.leave(transaction, &permit, buyer))
        });
        left.await
    }

    /// Takes a deleted person out of an item's line like [`Waitlist::leave`], unless the person has come back meanwhile.
    ///
    /// # Errors
    /// As for [`Waitlist::join`].
    pub(crate) async fn leave_if_erased(
        &self,
        item: ItemId,
        person: UserId,
    ) -> Result<Option<LineChange>, LedgerError> {
        let permit = &self.ledger.permit(item).await?;
        let left = self.ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(async move {
                // Under the lock nobody joins.
                stock_lock::lock(transaction, permit).await?;
                if !erased::contains(&mut **transaction, person).await? {
                    return Ok(None);
                }
                self.line.leave(transaction, permit, person).await
            })
        });
        left.await
    }

    /// Ends offers that were not accepted in time, and the line of a sale that is over; then offers the units
    /// that are available. Returns also whether more is to do.
    ///
    /// # Errors
    /// The database's.
    pub async fn tend(&self, item: ItemId) -> sqlx::Result<(LineChange, bool)> {
        let permit = ItemPermit::of_job(item);
        let tended = transact(&self.ledger.pool, |transaction| {
            Box::pin(self.line.tend(transaction, &permit))
        });
        tended.await
    }
}
