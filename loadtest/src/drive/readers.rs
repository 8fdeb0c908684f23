//! Readers beside the load: they look at orders that were sold, pay some and cancel some.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Drive;
use super::observer::Observer;
use ledger_audit::History;

/// The pause of a reader between two orders, so that it takes little from the load.
const PAUSE_MS: Range<u64> = 2..10;

/// The orders that were accepted so far, with the index of their buyers.
#[derive(Debug, Default)]
pub struct AcceptedOrders(Mutex<Vec<(u32, String)>>);

impl AcceptedOrders {
    /// Adds an order.
    pub fn push(&self, buyer: u32, order: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((buyer, order));
    }

    /// One of them, if there are any: the one that `draw` chooses among their indices.
    pub fn any(&self, draw: impl FnOnce(Range<usize>) -> usize) -> Option<(u32, String)> {
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = (!orders.is_empty()).then(|| draw(0..orders.len()))?;
        orders.get(index).cloned()
    }
}

/// The readers of a drive. They read until it is stopped.
pub struct Readers {
    base: Instant,
    tasks: JoinSet<History>,
}

impl Readers {
    /// Starts as many readers as the policy says.
    pub fn start(drive: &Arc<Drive>) -> Self {
        let base = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..drive.policy.readers {
            tasks.spawn(read(Arc::clone(drive), base));
        }
        Self { base, tasks }
    }

    /// What they saw, on the clock that starts at `started`, once the drive is stopped.
    pub async fn seen(self, started: Instant) -> History {
        let mut history = History::default();
        for seen in self.tasks.join_all().await {
            history.extend(seen);
        }
        history.shift(super::micros_since(self.base, started));
        history
    }
}

async fn read(drive: Arc<Drive>, base: Instant) -> History {
    let mut observer = Observer::new(drive.instances.clone(), base, drive.policy.timeout);
    while !drive.is_stopped() {
        if let Some((buyer, order)) = drive.accepted.any(|all| rand::rng().random_range(all)) {
            let token = &drive.tokens[buyer as usize];
            observer.order(token, &order).await;
            let changes = rand::rng().random_range(0..100) < drive.policy.change_percent;
            if changes && rand::random() {
                observer.pay(token, &order).await;
            } else if changes {
                observer.cancel(token, &order).await;
            }
            observer.list(drive.first_buyer + i64::from(buyer), token).await;
        }
        let pause_ms = rand::rng().random_range(PAUSE_MS);
        sleep(Duration::from_millis(pause_ms)).await;
    }
    observer.history
}
