//! How many transactions of one item hold a connection of the common pool at once: its purchases, and the
//! steps of its orders and of its waiting list.
//!
//! They wait for each other's row locks anyway, so a few are as fast as many. Without a bound the
//! buyers of one item with a locked row would take every connection, and the purchases and payments
//! of all other items would wait for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cache::Cache;
use shop_domain::ItemId;

/// One item has at most the pool's connections divided by this.
const SHARE: u32 = 4;
/// How long a step waits for a permit of its item: as long as a statement waits for a row by default, so
/// that a busy item is answered well before a client gives up.
const STEP_WAIT_MAX: Duration = Duration::from_secs(2);
/// Items whose limits are known at once.
const ITEMS_MAX: usize = 100_000;

/// The limit of each item. Clones share them.
#[derive(Clone)]
pub struct ItemConcurrency {
    items: Cache<ItemId, Arc<Semaphore>>,
    of_each: usize,
}

impl ItemConcurrency {
    /// A share of `connections` for each item.
    #[must_use]
    pub fn new(connections: u32) -> Self {
        Self { items: Cache::new(ITEMS_MAX), of_each: (connections / SHARE).max(1) as usize }
    }

    /// Waits for a permit of the item, first come first served; dropping the permit gives it back.
    pub async fn acquire(&self, item: ItemId) -> Option<OwnedSemaphorePermit> {
        let make = || Arc::new(Semaphore::new(self.of_each));
        let permits = self.items.get_or_insert_with(item, make);
        // It is never closed.
        permits.acquire_owned().await.ok()
    }

    /// Waits for a permit like [`ItemConcurrency::acquire`], for a step of an order or of a waiting list;
    /// `None` when other transactions of the item have all permits for too long.
    pub async fn acquire_for_step(&self, item: ItemId) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(STEP_WAIT_MAX, self.acquire(item)).await.ok().flatten()
    }
}

impl fmt::Debug for ItemConcurrency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ItemConcurrency({} of each item)", self.of_each)
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
            let limits = ItemConcurrency::new(connections);
            let taken: Vec<_> =
                (0..of_each).map(|_| limits.acquire(item(1)).now_or_never()).collect();
            assert!(taken.iter().all(Option::is_some), "{connections} connections");
            assert!(limits.acquire(item(1)).now_or_never().is_none(), "one more has to wait");
            assert!(limits.acquire(item(2)).now_or_never().is_some(), "another item");
            drop(taken);
            assert!(limits.acquire(item(1)).now_or_never().is_some());
        }
    }
}
