//! Standing in line for an item.

use time::OffsetDateTime;

use super::Purchases;
use super::items::Found;
use super::room::{Standing, Turned};
use crate::catalog::Unreachable;
use crate::domain::outcome::Dependency;
use crate::domain::window::Phase;
use crate::domain::{ItemId, Refusal, Unavailable, UserId};

impl Purchases {
    /// Takes a place in the line of an item, looks how far it has come, or exchanges it for a ticket.
    /// `place` and `proof` are what earlier answers gave and asked for.
    ///
    /// # Errors
    /// See [`Turned`]: among others that nothing is left, which is known within a quarter of a second.
    pub async fn stand_in_line(
        &self,
        id: ItemId,
        buyer: UserId,
        (place, proof): (Option<&str>, Option<&str>),
        now: OffsetDateTime,
    ) -> Result<Standing, Turned> {
        let items = &self.parts.items;
        let item = match items.find(id).await.map_err(away)? {
            Found::Fresh(item) => item,
            Found::Earlier { sold_out: true, .. } => return Err(Turned::Away(Refusal::SoldOut)),
            Found::Earlier { .. } => return Err(away(Unreachable)),
            Found::Nothing => return Err(Turned::Away(Refusal::ItemNotFound)),
        };
        if !item.waiting_room {
            return Err(Turned::Away(Refusal::NoWaitingRoom));
        }
        let open = item.window.phase(now) == Phase::Open;
        if open && items.available(id).await.map_err(away)? <= 0 {
            return Err(Turned::Away(Refusal::SoldOut));
        }
        let standing = self.parts.room.stand(&item, buyer, (place, proof), now);
        let word = match &standing {
            Ok(Standing::Waiting { .. }) => "waiting",
            Ok(Standing::Admitted { .. }) => "admitted",
            Err(_) => "refused",
        };
        self.parts.metrics.waiting_room_answered(word);
        standing
    }
}

fn away(_: Unreachable) -> Turned {
    Turned::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
