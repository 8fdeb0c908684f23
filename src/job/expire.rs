//! The job that expires unpaid orders whose hold has run out, and gives their units back.
//!
//! An error belongs to its item: it is logged and counted, and the other items go on.

use async_trait::async_trait;

use super::Job;
use crate::order::{ExpiryRun, Orders};
use crate::purchase::Purchases;
use ledger::rows::nothing_was_sent;
use shop_domain::ItemId;

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
        let mut total = 0;
        let mut failed = 0;
        for item in items {
            match self.sweep_item(item, &mut total).await {
                Ok(true) => {}
                Ok(false) => failed += 1,
                // The ledger fails, not this item: the other items would fail in the same way.
                Err(error) if nothing_was_sent(&error) => return Err(error.to_string()),
                Err(error) => {
                    tracing::warn!(%error, %item, "expired holds of an item not released; the next run tries again");
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

    /// Expires the overdue orders of one item, and adds their number to `total`; `false` when an
    /// order cannot expire.
    async fn sweep_item(&self, item: ItemId, total: &mut usize) -> ledger::Result<bool> {
        for _ in 0..BATCHES_MAX {
            let ExpiryRun { expired, stuck } = self.orders.expire(item, self.batch_max).await?;
            *total += expired;
            if expired > 0 {
                self.purchases.item_changed(item);
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
