//! The job that expires unpaid orders whose hold has run out, and gives their units back.
//!
//! An error belongs to its item: it is logged and counted, and the other items go on.

use async_trait::async_trait;
use futures::{StreamExt, stream};

use crate::order::{ExpiryRun, Orders, StepError};
use crate::purchase::Purchases;
use extension::job::Job;
use ledger::work::nothing_was_sent;
use shop_domain::ItemId;

/// Items whose orders expire at once: as many may be held by others at the same time without a delay for the rest.
const AT_ONCE: usize = 8;
/// Batches of one item in one run; further orders wait for the next run.
const BATCHES_MAX: usize = 100;

/// The job that expires orders.
pub struct Expire {
    pub orders: Orders,
    /// Forgets that an item is sold out when units come back.
    pub purchases: Purchases,
    /// Orders that one transaction takes.
    pub batch_max: u32,
}

#[async_trait]
impl Job for Expire {
    async fn run(&self) -> Result<String, String> {
        self.sweep().await
    }
}

impl Expire {
    async fn sweep(&self) -> Result<String, String> {
        let items = self.orders.overdue_items().await.map_err(|error| error.to_string())?;
        let sweeps = items.into_iter().map(|item| self.sweep_or_log(item));
        let mut sweeps = stream::iter(sweeps).buffer_unordered(AT_ONCE);
        let mut total = 0;
        let mut failed = 0;
        let mut is_away = None;
        // To the end: a sweep that is dropped in the middle would not be told of its COMMIT.
        while let Some(swept) = sweeps.next().await {
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
