//! Watched items: one reader for all who watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::MySqlPool;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::domain::{Item, ItemId};
use crate::store::mysql::items;

/// A watched item as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockSeen {
    /// The item.
    pub item: Arc<Item>,
    /// Units at the start and by restocks.
    pub total: i64,
    /// Units left.
    pub available: i64,
}

type Senders = HashMap<ItemId, watch::Sender<Option<StockSeen>>>;

/// The watched items. Clones share them.
#[derive(Clone)]
pub struct Watch {
    pool: MySqlPool,
    senders: Arc<Mutex<Senders>>,
}

impl Watch {
    /// Nothing is watched yet.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self { pool, senders: Arc::default() }
    }

    /// Watches an item from now on; the value is `None` until it was read the first time.
    #[must_use]
    pub fn item(&self, id: ItemId) -> watch::Receiver<Option<StockSeen>> {
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
            for id in self.watched() {
                match items::find(&self.pool, id).await {
                    Ok(Some(stocked)) => {
                        let items::StockedItem { item, total, available } = stocked;
                        self.tell(id, StockSeen { item, total, available });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(%error, "watched items are not read");
                        break;
                    }
                }
            }
        }
    }

    fn tell(&self, id: ItemId, seen: StockSeen) {
        if let Some(sender) = self.senders().get(&id) {
            sender.send_if_modified(|last| {
                let changed = last.as_ref() != Some(&seen);
                *last = Some(seen);
                changed
            });
        }
    }

    /// The items that somebody watches; forgets the others.
    fn watched(&self) -> Vec<ItemId> {
        let mut senders = self.senders();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.keys().copied().collect()
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
