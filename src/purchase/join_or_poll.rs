//! The position in the queue of an item with a waiting room.

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;

use super::Purchases;
use super::waiting_room::{Denied, QueueStatus, Shown};
use shop_domain::item::Phase;
use shop_domain::outcome::Dependency;
use shop_domain::{Item, ItemId, LedgerError, Refusal, Unavailable, UserId};

/// Greatest age of the number of units left.
const AVAILABLE_AGE_MAX: Duration = Duration::from_millis(250);

impl Purchases {
    /// Joins the queue of an item, answers the position in it, or gives the ticket; with the units that
    /// are left, at most a quarter of a second ago.
    ///
    /// # Errors
    /// See [`Denied`]: among others that nothing is left, which is known within a quarter of a
    /// second.
    pub async fn join_or_poll(
        &self,
        id: ItemId,
        buyer: UserId,
        shown: Shown<'_>,
        now: OffsetDateTime,
    ) -> Result<(QueueStatus, i64), Denied> {
        let item = self.item_with_room(id).await?;
        let read = self.parts.catalog.find_recent(id, AVAILABLE_AGE_MAX).await.map_err(away)?;
        let available = read.value.map_or(0, |stocked| stocked.available);
        if item.window.phase(now) == Phase::Open && available <= 0 {
            return Err(Denied::Refused(Refusal::SoldOut { asked_at: None }));
        }
        let status = self.parts.waiting_room.join_or_poll(&item, buyer, shown, now).await;
        let answer = match &status {
            Ok(QueueStatus::Waiting { .. }) => "waiting",
            Ok(QueueStatus::Admitted { .. }) => "admitted",
            Err(_) => "refused",
        };
        self.parts.metrics.waiting_room_answered(answer);
        status.map(|status| (status, available))
    }

    /// Leaves the waiting room of an item. A repetition has no further effect.
    ///
    /// # Errors
    /// When a server does not answer.
    pub async fn leave_room(&self, id: ItemId, buyer: UserId) -> Result<(), Denied> {
        self.item_with_room(id).await?;
        self.parts.waiting_room.leave(id, buyer).await
    }

    async fn item_with_room(&self, id: ItemId) -> Result<Arc<Item>, Denied> {
        let read = self.parts.catalog.find_recent(id, self.parts.item_age_max).await;
        let read = read.map_err(away)?;
        let stocked = read.value.ok_or(Denied::Refused(Refusal::ItemNotFound))?;
        // With an age, the ledger does not answer now.
        match read.age {
            None if stocked.item.waiting_room => Ok(stocked.item),
            None => Err(Denied::NoWaitingRoom),
            Some(_) if stocked.available > 0 => Err(away(LedgerError::Unavailable)),
            Some(_) => Err(Denied::Refused(Refusal::SoldOut { asked_at: None })),
        }
    }
}

fn away(_: LedgerError) -> Denied {
    Denied::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
