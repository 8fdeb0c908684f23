//! How the batches of one lane follow each other: one writes its rows while the one before it takes
//! the stock and is committed.
//!
//! Two places, and a batch goes through both in order: *rows* (orders, limits, movements), then
//! *stock* (the one hot row, COMMIT). It leaves the first only when it has the second, so batches
//! keep their order, the last units go to the first in line, and at most two transactions are open.
//!
//! Nobody waits in a circle. A batch that writes rows may wait for rows that the batch before it
//! has locked, and that one needs nothing any more but the stock. A batch that is rolled back gives
//! up its turn before it takes another.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The two places. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Turns {
    rows: Arc<Mutex<()>>,
    stock: Arc<Mutex<()>>,
}

/// One batch's place. Dropping it lets the next one on.
pub(super) struct Turn {
    turns: Turns,
    rows: Option<OwnedMutexGuard<()>>,
    stock: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until rows may be written. First come, first served.
    pub(super) async fn next(&self) -> Turn {
        let rows = Arc::clone(&self.rows).lock_owned().await;
        Turn { turns: self.clone(), rows: Some(rows), stock: None }
    }
}

impl Turn {
    /// Waits until the batch before has ended, and keeps the one behind from beginning: for a batch
    /// that looks before it writes.
    pub(super) async fn alone(&mut self) {
        if self.stock.is_none() {
            self.stock = Some(Arc::clone(&self.turns.stock).lock_owned().await);
        }
    }

    /// The rows are written: waits until the batch before has ended, and lets the one behind begin,
    /// unless this one is to be alone.
    pub(super) async fn rows_are_in(&mut self) {
        if self.stock.is_none() {
            self.alone().await;
            self.rows = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_writes_rows_while_the_one_before_takes_the_stock() {
        let turns = Turns::default();
        let mut first = turns.next().await;
        assert!(turns.next().now_or_never().is_none(), "the first one's rows are not in");
        first.rows_are_in().await;
        let mut second = turns.next().await;
        assert!(second.rows_are_in().now_or_never().is_none(), "the first one has the stock");
        assert!(turns.next().now_or_never().is_none(), "a third one has to wait");
        drop(first);
        second.rows_are_in().await;
        assert!(turns.next().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_looks_first_is_alone() {
        let turns = Turns::default();
        let mut first = turns.next().await;
        first.rows_are_in().await;
        let mut careful = turns.next().await;
        assert!(careful.alone().now_or_never().is_none(), "the first one has not ended");
        drop(first);
        careful.alone().await;
        careful.rows_are_in().await;
        assert!(turns.next().now_or_never().is_none(), "it is alone until it has ended");
        drop(careful);
        assert!(turns.next().now_or_never().is_some());
    }
}
