//! Watched items: one task reads each watched item for all its watchers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CatalogRead, StockedItem};
use shop_domain::ItemId;

/// How long one round waits for an item; the next round reads it again.
const READ_MAX: Duration = Duration::from_secs(1);

type Senders = HashMap<ItemId, watch::Sender<Option<StockedItem>>>;

/// The watched items. Clones share them.
#[derive(Clone)]
pub struct Watch {
    catalog: Catalog,
    senders: Arc<Mutex<Senders>>,
}

impl Watch {
    /// Makes a list without watched items.
    pub fn new(catalog: Catalog) -> Self {
        Self { catalog, senders: Arc::default() }
    }

    /// Subscribes to an item; the value is `None` until its first read.
    pub fn item(&self, id: ItemId) -> watch::Receiver<Option<StockedItem>> {
        self.senders().entry(id).or_insert_with(|| watch::channel(None).0).subscribe()
    }

    /// Reads the watched items every `period` until `stop` fires.
    pub async fn run(self, period: Duration, stop: CancellationToken) {
        let mut tick = tokio::time::interval(period);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            // Together: the catalog reads many with one statement, and a ledger that does not answer
            // delays no items of others.
            join_all(self.watched().into_iter().map(|id| self.read(id))).await;
        }
    }

    /// Reads one item; it stays as it is while its ledger does not answer.
    async fn read(&self, id: ItemId) {
        let read = timeout(READ_MAX, self.catalog.find(id)).await;
        if let Ok(Ok(CatalogRead { value: Some(stocked), age: None })) = read {
            self.publish(id, stocked);
        }
    }

    fn publish(&self, id: ItemId, seen: StockedItem) {
        if let Some(sender) = self.senders().get(&id) {
            sender.send_if_modified(|last| {
                let changed = last.as_ref() != Some(&seen);
                *last = Some(seen);
                changed
            });
        }
    }

    /// The items with at least one watcher; forgets the others.
    fn watched(&self) -> Vec<ItemId> {
        let mut senders = self.senders();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.keys().copied().collect()
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
