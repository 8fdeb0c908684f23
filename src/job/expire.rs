//! Gives back the stock of unpaid orders whose hold has run out.
//!
//! An error belongs to its item: it is logged and counted, and the other items go on.

use std::time::Duration;

use async_trait::async_trait;

use super::Job;
use crate::domain::ItemId;
use crate::order::{Orders, Swept};
use crate::purchase::Purchases;
use crate::store::mysql::nothing_was_sent;

/// Batches of one item in one run; the rest waits for the next.
const BATCHES_MAX: usize = 100;

/// The job.
pub struct Expire {
    /// Where orders expire.
    pub orders: Orders,
    /// Is told that units came back.
    pub purchases: Purchases,
    /// The pause between two runs.
    pub period: Duration,
    /// Orders that one transaction takes.
    pub batch_max: u32,
}

#[async_trait]
impl Job for Expire {
    fn name(&self) -> &'static str {
        "expire"
    }

    fn period(&self) -> Duration {
        self.period
    }

    async fn run(&self) -> Result<String, String> {
        self.sweep().await
    }
}

impl Expire {
    async fn sweep(&self) -> Result<String, String> {
        let items = self.orders.overdue_items().await.map_err(|error| error.to_string())?;
        let (mut total, mut failed) = (0, 0);
        for item in items {
            match self.sweep_item(item, &mut total).await {
                Ok(true) => {}
                Ok(false) => failed += 1,
                // Not the fault of this item: the others would fail in the same way.
                Err(error) if nothing_was_sent(&error) => return Err(error.to_string()),
                Err(error) => {
                    tracing::warn!(%error, %item, "the expired holds of an item were not released; the next run tries again");
                    failed += 1;
                }
            }
        }
        match failed {
            0 => Ok(format!("{total} orders expired")),
            1 => Err(format!("1 item failed, see the log; {total} orders expired")),
            _ => Err(format!("{failed} items failed, see the log; {total} orders expired")),
        }
    }

    /// Expires what is overdue of one item, and adds it to `total`; `false` when an order cannot
    /// expire.
    async fn sweep_item(&self, item: ItemId, total: &mut usize) -> sqlx::Result<bool> {
        for _ in 0..BATCHES_MAX {
            let Swept { expired, stuck } = self.orders.expire(item, self.batch_max).await?;
            *total += expired;
            if expired > 0 {
                self.purchases.item_changed(item).await;
            }
            if stuck > 0 {
                return Ok(false);
            }
            if expired < self.batch_max as usize {
                break;
            }
        }
        Ok(true)
    }
}
