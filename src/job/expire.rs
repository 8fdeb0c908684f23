//! The job that expires unpaid orders whose hold has run out, and gives their units back.
//!
//! An error belongs to its item: it is logged and counted, and the other items go on. An item whose sweep takes long does
//! not delay the next run: each sweep is a task, and the next run leaves out what is still swept.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::order::{ExpiryRun, Orders, StepError};
use crate::purchase::Purchases;
use extension::job::Job;
use ledger::work::nothing_was_sent;
use shop_domain::ItemId;

/// Items whose orders expire at once: as many may be held by others at the same time without a delay for the rest.
const AT_ONCE: usize = 8;
/// How long a run waits for its last items.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Batches of one item in one run; further orders wait for the next run.
const BATCHES_MAX: usize = 100;

/// The job that expires orders.
pub struct Expire {
    sweeper: Sweeper,
    /// A stop waits for them: a sweep that is dropped in the middle would not be told of its COMMIT.
    tasks: TaskTracker,
    running: Mutex<RunningSweeps>,
}

/// Expires the orders of one item.
#[derive(Clone)]
pub struct Sweeper {
    pub orders: Orders,
    /// Forgets that an item is sold out when units come back.
    pub purchases: Purchases,
    /// Orders that one transaction takes.
    pub batch_max: u32,
}

/// The sweeps that have not ended, also those of earlier runs.
#[derive(Default)]
struct RunningSweeps {
    items: BTreeSet<ItemId>,
    sweeps: FuturesUnordered<BoxFuture<'static, (ItemId, Result<Swept, StepError>)>>,
}

impl RunningSweeps {
    /// Begins the sweep of an item, unless one runs.
    fn begin(&mut self, item: ItemId, sweeper: &Sweeper, tasks: &TaskTracker) {
        if self.items.insert(item) {
            let sweeper = sweeper.clone();
            let sweep = tasks.spawn(async move { sweeper.sweep_or_log(item).await });
            // After a panic some orders are left.
            let ended = sweep.map(move |swept| (item, swept.unwrap_or(Ok(Swept::default()))));
            self.sweeps.push(ended.boxed());
        }
    }

    /// Waits until a sweep ends, or until `deadline`; `None` when none runs, or when the time is over.
    async fn next(&mut self, deadline: Option<Instant>) -> Option<Result<Swept, StepError>> {
        let next = self.sweeps.next();
        let ended = match deadline {
            Some(deadline) => timeout_at(deadline, next).await.ok().flatten(),
            None => next.await,
        };
        let (item, swept) = ended?;
        self.items.remove(&item);
        Some(swept)
    }
}

impl Expire {
    /// Makes the job, whose sweeps are tasks of `tasks`.
    pub fn new(sweeper: Sweeper, tasks: TaskTracker) -> Self {
        Self { sweeper, tasks, running: Mutex::default() }
    }
}

#[async_trait]
impl Job for Expire {
    async fn run(&self) -> Result<String, String> {
        let items = self.sweeper.orders.overdue_items().await;
        let mut items = items.map_err(|error| error.to_string())?.into_iter();
        let until = Instant::now() + WAIT_MAX;
        let mut running = self.running.lock().await;
        let mut total = 0;
        let mut failed = 0;
        let mut is_away = None;
        loop {
            while running.items.len() < AT_ONCE
                && let Some(item) = items.next()
            {
                running.begin(item, &self.sweeper, &self.tasks);
            }
            // Each item has begun before the run ends.
            let deadline = items.as_slice().is_empty().then_some(until);
            let Some(swept) = running.next(deadline).await else { break };
            match swept {
                Ok(Swept { expired, is_whole }) => {
                    total += expired;
                    failed += usize::from(!is_whole);
                }
                Err(error) => is_away = Some(error.to_string()),
            }
        }
        match (is_away, failed) {
            (Some(error), _) => Err(error),
            (None, 0) => Ok(format!("{total} orders expired")),
            (None, 1) => Err(format!("1 item failed, see the log; {total} orders expired")),
            (None, _) => Err(format!("{failed} items failed, see the log; {total} orders expired")),
        }
    }
}

impl Sweeper {
    /// Expires the overdue orders of one item. An error is logged, unless it is the ledger's: then the other items
    /// would fail in the same way.
    async fn sweep_or_log(&self, item: ItemId) -> Result<Swept, StepError> {
        let mut swept = Swept::default();
        match self.sweep_item(item, &mut swept).await {
            Err(StepError::Unavailable(error)) if nothing_was_sent(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, %item, "expired holds of an item not released; the next run tries again");
                Ok(Swept { is_whole: false, ..swept })
            }
            Ok(()) => Ok(swept),
        }
    }

    async fn sweep_item(&self, item: ItemId, swept: &mut Swept) -> Result<(), StepError> {
        swept.is_whole = true;
        for _ in 0..BATCHES_MAX {
            let come_back = |item| self.purchases.item_changed(item);
            let run = self.orders.expire(item, self.batch_max, &come_back).await?;
            let ExpiryRun { expired, stuck } = run;
            swept.expired += expired;
            if stuck > 0 {
                swept.is_whole = false;
                return Ok(());
            }
            if expired < self.batch_max as usize {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What one run has done with the orders of an item.
#[derive(Clone, Copy, Debug, Default)]
struct Swept {
    expired: usize,
    /// Whether no order was left that cannot expire now.
    is_whole: bool,
}
