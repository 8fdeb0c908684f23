//! The position in the queue of an item with a waiting room.

use std::sync::Arc;

use time::OffsetDateTime;

use super::Purchases;
use super::find::ItemRead;
use super::waiting_room::{Denied, QueueStatus, Shown};
use crate::catalog::Unreachable;
use shop_domain::outcome::Dependency;
use shop_domain::window::Phase;
use shop_domain::{Item, ItemId, Refusal, Unavailable, UserId};

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
        let available = self.parts.items.available(id).await.map_err(away)?;
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
        let item = match self.parts.items.find(id).await.map_err(away)? {
            ItemRead::Fresh(item) => item,
            ItemRead::Remembered { sold_out: true, .. } => {
                return Err(Denied::Refused(Refusal::SoldOut { asked_at: None }));
            }
            ItemRead::Remembered { .. } => return Err(away(Unreachable)),
            ItemRead::Missing => return Err(Denied::Refused(Refusal::ItemNotFound)),
        };
        if item.waiting_room { Ok(item) } else { Err(Denied::NoWaitingRoom) }
    }
}

fn away(_: Unreachable) -> Denied {
    Denied::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
