//! The job that counts the items on their way to another ledger, for the alerts.
//!
//! Moves are the work of a command, on any machine: when it dies, nobody but the instances is left to
//! tell of an item that sells nowhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ledger::Database;

use super::Job;
use ledger::route::Shards;
use ledger::rows::moves::{self, ItemMove, MoveState};
use ledger::rows::stock;
use shop_domain::ItemId;
use shop_metrics::Metrics;

/// The job that watches moves.
pub struct WatchMoves {
    pools: Shards<Database>,
    metrics: Metrics,
    /// Since when items have been seen closed, each time by this instance.
    closed: Mutex<BTreeMap<ItemId, Instant>>,
}

impl WatchMoves {
    /// Makes the job of the home ledger.
    #[must_use]
    pub fn new(pools: Shards<Database>, metrics: Metrics) -> Self {
        Self { pools, metrics, closed: Mutex::default() }
    }

    /// Returns whether no route leads to the item. The record of the move is not asked, since a mover may die
    /// between closing the item and writing that.
    async fn is_closed(&self, item: ItemId) -> ledger::Result<bool> {
        let (shard, epoch) = moves::home(self.pools.home(), item).await?;
        let row = stock::read(self.pools.at(shard), item).await?;
        Ok(row.is_none_or(|row| row.home_epoch != epoch))
    }

    /// Remembers which items are closed now, and returns for how long one of them has been.
    fn closed_for(&self, items: &[ItemId]) -> Duration {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.retain(|item, _| items.contains(item));
        for item in items {
            closed.entry(*item).or_insert_with(Instant::now);
        }
        closed.values().map(Instant::elapsed).max().unwrap_or_default()
    }
}

#[async_trait]
impl Job for WatchMoves {
    async fn run(&self) -> Result<String, String> {
        let home = self.pools.home();
        let recent = moves::recent(home).await.map_err(|error| error.to_string())?;
        let under_way: Vec<&ItemMove> =
            recent.moves.iter().filter(|of| of.ended_at.is_none()).collect();
        for state in MoveState::ALL.into_iter().filter(|state| *state != MoveState::Done) {
            let count = under_way.iter().filter(|of| of.state == state).count();
            self.metrics.moves.set_under_way(state.as_str(), count);
        }
        self.metrics.moves.set_pause(recent.pause_max());
        let mut closed = Vec::new();
        let mut unread = None;
        for of in &under_way {
            match self.is_closed(of.item).await {
                Ok(false) => {}
                Ok(true) => closed.push(of.item),
                Err(error) => unread = Some(format!("item {}: {error}", of.item)),
            }
        }
        let oldest = under_way.iter().map(|of| recent.now - of.started_at).max();
        let oldest = oldest.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        self.metrics.moves.set_times(oldest, self.closed_for(&closed));
        match unread {
            Some(error) => Err(error),
            None => {
                Ok(format!("{} moves under way, {} items closed", under_way.len(), closed.len()))
            }
        }
    }
}
