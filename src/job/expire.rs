//! Gives back the stock of unpaid orders whose hold has run out.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::Job;
use crate::order::Orders;
use crate::purchase::Purchases;

/// Batches of one item in one run; the rest waits for the next.
const BATCHES_MAX: usize = 100;

/// The sweep.
pub struct Expire {
    /// Where orders expire.
    pub orders: Orders,
    /// Who must know that units came back.
    pub purchases: Purchases,
    /// The pause between two runs.
    pub period: Duration,
    /// Orders that one transaction takes.
    pub batch_max: u32,
}

impl Job for Expire {
    fn name(&self) -> &'static str {
        "expire"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn run(&self) -> BoxFuture<'_, Result<String, String>> {
        self.sweep().map(|swept| swept.map_err(|error| error.to_string())).boxed()
    }
}

impl Expire {
    async fn sweep(&self) -> sqlx::Result<String> {
        let mut total = 0;
        for item in self.orders.overdue_items().await? {
            for _ in 0..BATCHES_MAX {
                let expired = self.orders.expire(item, self.batch_max).await?;
                total += expired;
                if expired > 0 {
                    self.purchases.item_changed(item).await;
                }
                if expired < self.batch_max as usize {
                    break;
                }
            }
        }
        Ok(format!("{total} orders expired"))
    }
}
