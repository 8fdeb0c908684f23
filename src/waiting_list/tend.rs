//! Housekeeping of the waiting lists, which a job runs.
//!
//! The row of one item may be held for long. Its line is then deferred, and the other lines go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

use super::WaitingLists;
use ledger::rows::waiting_list;
use ledger::work::nothing_was_sent;
use mysql_connection::Fault;
use shop_domain::ItemId;

/// Items whose lines are tended at once: as many rows may be held at the same time without a delay for the
/// other lines.
const AT_ONCE: usize = 4;
/// An error that comes later than this has kept a place among those for a while: the row is held.
const QUICK: Duration = Duration::from_millis(500);
/// How long a line is left alone then, and after an error that does not pass: a few runs in which the others do not wait for it.
const DEFERRED_FOR: Duration = Duration::from_secs(2);
/// Transactions of one item in one run; the rest of a long line waits for the next run.
const TRANSACTIONS_MAX: u32 = 100;

/// What one run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TendRun {
    /// Places that changed.
    pub changed: usize,
    /// Items whose lines could not be tended, with those that are left alone after an earlier error.
    pub failed: usize,
}

/// The items whose lines are left alone for a moment, with the end of it. Clones share them.
#[derive(Clone, Default)]
pub(super) struct DeferredItems(Arc<Mutex<HashMap<ItemId, Instant>>>);

impl DeferredItems {
    fn items(&self) -> MutexGuard<'_, HashMap<ItemId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, item: ItemId) {
        self.items().insert(item, Instant::now() + DEFERRED_FOR);
    }

    /// Whether an item is left alone now.
    fn has(&self, item: ItemId) -> bool {
        self.items().contains_key(&item)
    }

    /// Forgets the items whose time is over.
    fn end(&self) {
        let now = Instant::now();
        self.items().retain(|_, until| *until > now);
    }
}

impl WaitingLists {
    /// Ends offers that were not accepted in time, ends the lines of sales that are over, and offers
    /// units that are available. Any instance may do it at any time. An error
    /// belongs to its item: it is logged and counted, and the other items go on.
    ///
    /// # Errors
    /// The database's, when the items cannot be read or no connection can be had; what was done stays done.
    pub async fn tend(&self) -> ledger::Result<TendRun> {
        let pool = &self.parts.waitlist.ledger.pool;
        let items = waiting_list::items_to_tend(pool, self.parts.clock.now()).await?;
        self.deferred.end();
        let (deferred, items): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| self.deferred.has(*item));
        let lines = items.into_iter().map(|item| self.tend_line(item));
        let mut lines = stream::iter(lines).buffer_unordered(AT_ONCE);
        let mut sum = TendRun { changed: 0, failed: deferred.len() };
        let mut ended = Ok(());
        // To the end: a line that is dropped in the middle would not be told of its COMMIT.
        while let Some(tended) = lines.next().await {
            match tended {
                Ok(TendRun { changed, failed }) => {
                    sum.changed += changed;
                    sum.failed += failed;
                }
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended.map(|()| sum)
    }

    /// Tends one line, in as many transactions as one run may make.
    async fn tend_line(&self, item: ItemId) -> ledger::Result<TendRun> {
        let mut sum = TendRun::default();
        for _ in 0..TRANSACTIONS_MAX {
            let begin = Instant::now();
            match self.parts.waitlist.tend(item).await {
                Ok((change, more)) => {
                    self.publish(item, &change).await;
                    sum.changed += change.changed.len();
                    if !more {
                        break;
                    }
                }
                // The ledger fails, not this item.
                Err(error) if nothing_was_sent(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, %item, "line of an item not tended; a later run tries again");
                    // Two instances that met at one row delay nobody.
                    if Fault::of(&error) != Fault::Transient || begin.elapsed() >= QUICK {
                        self.deferred.add(item);
                    }
                    sum.failed += 1;
                    break;
                }
            }
        }
        Ok(sum)
    }
}
