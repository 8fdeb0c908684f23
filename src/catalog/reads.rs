//! Reads of items: those that are asked for at the same time are read with one statement.
//!
//! When a sale of thousands of items opens, each of them is asked for in the same second. While one
//! statement runs the next questions gather, up to a bound. There is no timer: a question that
//! comes alone is asked at once. A question is never answered by a statement that was sent before
//! it came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::MySqlPool;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Unreachable;
use crate::domain::{Clock, ItemId};
use crate::store::breaker::Breaker;
use crate::store::mysql;
use crate::store::mysql::items::{self, StockedItem};

/// Items that one statement reads.
const TOGETHER_MAX: usize = 128;
/// Items that wait to be read; one more is answered as if the ledger did not answer.
const WAITING_MAX: usize = 16_384;

/// The ledger's answer about one item; `None` when there is no such item.
type Answer = Result<Option<StockedItem>, Unreachable>;

/// Reads items. Clones read together.
#[derive(Clone)]
pub(super) struct ItemReads {
    parts: Arc<Parts>,
}

struct Parts {
    pool: MySqlPool,
    breaker: Breaker,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<ItemId, Vec<oneshot::Sender<Answer>>>,
    /// Whether the task that reads runs.
    is_read: bool,
}

/// The task that reads. Whatever ends it, another one begins with the next question.
struct Reader {
    parts: Arc<Parts>,
    has_ended: bool,
}

impl ItemReads {
    /// Reads over `pool`, unless `breaker` is open; each read sets the database's time of `clock`.
    pub(super) fn new(pool: MySqlPool, breaker: Breaker, clock: Clock) -> Self {
        Self { parts: Arc::new(Parts { pool, breaker, clock, state: Mutex::default() }) }
    }

    /// Reads an item with the next statement.
    ///
    /// # Errors
    /// When the ledger does not answer, or the item's row is damaged.
    pub(super) async fn read(&self, id: ItemId) -> Answer {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.parts.state();
            if state.waiting.len() >= WAITING_MAX && !state.waiting.contains_key(&id) {
                return Err(Unreachable);
            }
            state.waiting.entry(id).or_default().push(answer);
            if !state.is_read {
                state.is_read = true;
                // A task of its own: the caller who begins it may stop waiting.
                let parts = Arc::clone(&self.parts);
                tokio::spawn(Reader { parts, has_ended: false }.run());
            }
        }
        answered.await.unwrap_or(Err(Unreachable))
    }
}

impl Reader {
    /// Reads until nothing is asked.
    async fn run(mut self) {
        loop {
            let asked = self.parts.take();
            if asked.is_empty() {
                self.has_ended = true;
                return;
            }
            let ids: Vec<ItemId> = asked.keys().copied().collect();
            let mut read = self.parts.read(&ids).await;
            for (id, askers) in asked {
                let answer = match &mut read {
                    Ok(found) => found.remove(&id).transpose(),
                    Err(Unreachable) => Err(Unreachable),
                };
                for asker in askers {
                    // Nobody may be left who wants to know.
                    let _ = asker.send(answer.clone());
                }
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.has_ended {
            // It broke off. The callers that wait are answered: their senders are dropped.
            let mut state = self.parts.state();
            state.waiting.clear();
            state.is_read = false;
        }
    }
}

impl Parts {
    /// Takes the next questions. With none the task has ended, which is noted under the same lock:
    /// the next question begins another one.
    fn take(&self) -> HashMap<ItemId, Vec<oneshot::Sender<Answer>>> {
        let mut state = self.state();
        state.is_read = !state.waiting.is_empty();
        if state.waiting.len() <= TOGETHER_MAX {
            return std::mem::take(&mut state.waiting);
        }
        let ids: Vec<ItemId> = state.waiting.keys().copied().take(TOGETHER_MAX).collect();
        ids.iter().filter_map(|id| state.waiting.remove_entry(id)).collect()
    }

    async fn read(
        &self,
        ids: &[ItemId],
    ) -> Result<HashMap<ItemId, Result<StockedItem, Unreachable>>, Unreachable> {
        let started = Instant::now();
        let read = mysql::ask(&self.breaker, items::find_several(&self.pool, ids)).await;
        let read = read.map_err(|error| {
            if !self.breaker.is_open() {
                tracing::warn!(%error, items = ids.len(), "items not read");
            }
            Unreachable
        })?;
        if let Some(ledger_now) = read.ledger_now {
            self.clock.heard_from_ledger(ledger_now, started.into_std());
        }
        let found = read.found.into_iter().map(|(id, stocked)| {
            let stocked = stocked.map_err(|error| {
                tracing::warn!(%error, item = %id, "row of an item not readable");
                Unreachable
            });
            (id, stocked)
        });
        Ok(found.collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
