//! Turns of optimistic gates: few purchases of an item try at once, because of those that do, one succeeds.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use ledger::cache::Cache;
use shop_domain::ItemId;

/// Items whose purchases are counted at once.
const ITEMS_MAX: usize = 100_000;

/// The turns of purchases in this process. Each item has its own: the tries of an item whose row is locked, or whose
/// counter is not loaded, last as long as they may.
pub struct ItemTurns {
    items: Cache<ItemId, Arc<Semaphore>>,
    trying_max: usize,
}

impl ItemTurns {
    /// Lets `trying_max` purchases of an item try at once.
    pub fn new(trying_max: usize) -> Self {
        Self { items: Cache::new(ITEMS_MAX), trying_max }
    }

    /// Waits for a turn of the item, which ends with the permit; `None` when there was none before the deadline.
    pub async fn wait(&self, item: ItemId, deadline: Instant) -> Option<OwnedSemaphorePermit> {
        let make = || Arc::new(Semaphore::new(self.trying_max));
        let turns = self.items.get_or_insert_with(item, make);
        timeout_at(deadline, turns.acquire_owned()).await.ok()?.ok()
    }
}
