//! The opening: who waits when a sale opens gets a place by chance.
//!
//! The script of the first buyer who joins keeps a secret in Redis, from which the order of all buyers follows. At the
//! opening the list of the buyers is fixed. Then any instance writes the places, and another one goes on where one was
//! killed.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use redis::RedisResult;

use super::{WaitingRoom, room_life};
use shop_domain::{Item, ItemId};

impl WaitingRoom {
    /// Writes the places of an item whose sale has opened, beside the requests, once at a time. Polls ask for it until
    /// the places are there.
    pub(super) fn draw_places(&self, item: &Item) {
        if !self.drawing().insert(item.id) {
            return;
        }
        let room = self.clone();
        let worker = self.clone();
        let item = item.clone();
        tokio::spawn(async move {
            let id = item.id;
            // On a task of its own, so that a panic is an end, too.
            let drawn = tokio::spawn(async move { worker.write_places(&item).await }).await;
            room.drawing().remove(&id);
            if let Ok(Err(error)) = drawn {
                tracing::warn!(%error, item = %id, "places not drawn; the next poll tries again");
            }
        });
    }

    async fn write_places(&self, item: &Item) -> RedisResult<()> {
        let parts = &self.parts;
        let Some(ordered) = parts.room.early(item.id).await? else { return Ok(()) };
        hold!("places-known", ordered.first().map_or(0, |buyer| buyer.get()));
        let life = room_life(item, parts.clock.now());
        parts.room.place(item.id, &ordered, parts.clock.shifted(), life).await
    }

    fn drawing(&self) -> MutexGuard<'_, HashSet<ItemId>> {
        self.drawing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
