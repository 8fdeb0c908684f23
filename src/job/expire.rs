//! The job that expires unpaid orders whose hold has run out, and gives their units back.
//!
//! An error belongs to its item: it is logged and counted, and the other items go on.

use async_trait::async_trait;

use super::Job;
use crate::order::{ExpiryRun, LedgerOrders};
use crate::purchase::Purchases;
use ledger::route::Homes;
use ledger::rows::{Fault, nothing_was_sent};
use shop_domain::{ItemRoute, ShardId};

/// Batches of one item in one run; further orders wait for the next run.
const BATCHES_MAX: usize = 100;

/// The job that expires orders.
pub struct Expire {
    /// The orders of the ledger.
    pub orders: LedgerOrders,
    /// The ledger, and where items live.
    pub ledger: (ShardId, Homes),
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
        let (shard, homes) = &self.ledger;
        let items = homes.routed_in(*shard, items).await.map_err(|error| error.to_string())?;
        let (mut total, mut failed, mut moving) = (0, 0, 0);
        for item in items {
            match self.sweep_item(item, &mut total).await {
                Ok(true) => {}
                Ok(false) => failed += 1,
                // Its holds end after the move, wherever the item is by then.
                Err(error) if Fault::of(&error) == Fault::Moved => moving += 1,
                // The ledger fails, not this item: the other items would fail in the same way.
                Err(error) if nothing_was_sent(&error) => return Err(error.to_string()),
                Err(error) => {
                    let item = item.item;
                    tracing::warn!(%error, %item, "expired holds of an item not released; the next run tries again");
                    failed += 1;
                }
            }
        }
        match failed {
            0 if moving > 0 => Ok(format!("{total} orders expired; {moving} items are moving")),
            0 => Ok(format!("{total} orders expired")),
            1 => Err(format!("1 item failed, see the log; {total} orders expired")),
            _ => Err(format!("{failed} items failed, see the log; {total} orders expired")),
        }
    }

    /// Expires the overdue orders of one item, and adds their number to `total`; `false` when an
    /// order cannot expire.
    async fn sweep_item(&self, item: ItemRoute, total: &mut usize) -> ledger::Result<bool> {
        for _ in 0..BATCHES_MAX {
            let ExpiryRun { expired, stuck } = self.orders.expire(item, self.batch_max).await?;
            *total += expired;
            if expired > 0 {
                self.purchases.item_changed(item.item);
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
