//! The transactions of the waiting lists.

use super::{JoinRefusal, LineChange, WaitingLine};
use crate::erasure::traces::{Fate, Trace};
use crate::work::item_permit::ItemPermit;
use crate::work::{Ledger, RetryPolicy};
use mysql_connection::transact;
use shop_domain::{Item, ItemId, LedgerError, Place, UserId};

/// Writes the waiting lists. Joining and leaving are idempotent, so a lost COMMIT is tried again too. Clones share
/// everything.
#[derive(Clone)]
pub struct Waitlist {
    pub ledger: Ledger,
    pub line: WaitingLine,
}

/// A deleted person leaves all lines.
pub(crate) const TRACE: Trace = Trace {
    table: "waiting_list",
    column: "user_id",
    fate: Fate::Ended {
        // By item: there is no index by user, and there are fewer items than places.
        items: "SELECT items.id FROM items STRAIGHT_JOIN waiting_list \
             ON waiting_list.item_id = items.id AND user_id = ? AND live = 1",
        end: |line, transaction, permit, user| Box::pin(line.leave(transaction, permit, user)),
    },
};

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
