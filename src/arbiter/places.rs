//! How many transactions of one item hold a connection of the common pool at once.
//!
//! They wait for each other's row locks anyway, so a few are as fast as many. Without a bound the
//! buyers of one item with a locked row would take every connection, and the purchases and payments
//! of all other items would wait for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::ItemId;

/// One item has at most the pool's connections divided by this.
const SHARE: u32 = 4;
/// Items whose places are known at once.
const ITEMS_MAX: u64 = 100_000;
/// The places of an item that nobody has bought for so long are forgotten: longer than a transaction
/// takes.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The places of each item. Clones share them.
#[derive(Clone)]
pub(super) struct Places {
    items: Cache<ItemId, Arc<Semaphore>>,
    of_each: usize,
}

impl Places {
    /// A share of `connections` for each item.
    pub(super) fn new(connections: u32) -> Self {
        let items = Cache::builder().max_capacity(ITEMS_MAX).time_to_idle(IDLE_MAX).build();
        Self { items, of_each: (connections / SHARE).max(1) as usize }
    }

    /// Waits for a place of the item, first come first served; dropping it leaves.
    pub(super) async fn enter(&self, item: ItemId) -> Option<OwnedSemaphorePermit> {
        let make = || Arc::new(Semaphore::new(self.of_each));
        let places = self.items.get(&item).unwrap_or_else(|| self.items.get_with(item, make));
        // It is never closed.
        places.acquire_owned().await.ok()
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Places({} of each item)", self.of_each)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_item_cannot_take_all_connections() {
        let item = |id| ItemId::new(id).expect("positive");
        for (connections, of_each) in [(32, 8), (16, 4), (2, 1)] {
            let places = Places::new(connections);
            let taken: Vec<_> =
                (0..of_each).map(|_| places.enter(item(1)).now_or_never()).collect();
            assert!(taken.iter().all(Option::is_some), "{connections} connections");
            assert!(places.enter(item(1)).now_or_never().is_none(), "one more has to wait");
            assert!(places.enter(item(2)).now_or_never().is_some(), "another item");
            drop(taken);
            assert!(places.enter(item(1)).now_or_never().is_some());
        }
    }
}
