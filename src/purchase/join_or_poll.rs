//! The position in the queue of an item with a waiting room.

use time::OffsetDateTime;

use super::Purchases;
use super::find::ItemRead;
use super::waiting_room::{Denied, QueueStatus};
use crate::catalog::Unreachable;
use shop_domain::outcome::Dependency;
use shop_domain::window::Phase;
use shop_domain::{ItemId, Refusal, Unavailable, UserId};

impl Purchases {
    /// Joins the queue of an item, answers the position in it, or exchanges the queue token for a
    /// ticket. `shown` is the queue token of an earlier answer, with the proof that it asked for.
    ///
    /// # Errors
    /// See [`Denied`]: among others that nothing is left, which is known within a quarter of a
    /// second.
    pub async fn join_or_poll(
        &self,
        id: ItemId,
        buyer: UserId,
        shown: (Option<&str>, Option<&str>),
        now: OffsetDateTime,
    ) -> Result<QueueStatus, Denied> {
        let items = &self.parts.items;
        let item = match items.find(id).await.map_err(away)? {
            ItemRead::Fresh(item) => item,
            ItemRead::Remembered { sold_out: true, .. } => {
                return Err(Denied::Refused(Refusal::SoldOut { asked_at: None }));
            }
            ItemRead::Remembered { .. } => return Err(away(Unreachable)),
            ItemRead::Missing => return Err(Denied::Refused(Refusal::ItemNotFound)),
        };
        if !item.waiting_room {
            return Err(Denied::Refused(Refusal::NoWaitingRoom));
        }
        let open = item.window.phase(now) == Phase::Open;
        if open && items.available(id).await.map_err(away)? <= 0 {
            return Err(Denied::Refused(Refusal::SoldOut { asked_at: None }));
        }
        let status = self.parts.waiting_room.join_or_poll(&item, buyer, shown, now);
        let answer = match &status {
            Ok(QueueStatus::Waiting { .. }) => "waiting",
            Ok(QueueStatus::Admitted { .. }) => "admitted",
            Err(_) => "refused",
        };
        self.parts.metrics.waiting_room_answered(answer);
        status
    }
}

fn away(_: Unreachable) -> Denied {
    Denied::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
