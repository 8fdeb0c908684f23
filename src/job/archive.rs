//! The job that archives the orders of sales that ended long ago.
//!
//! It runs in every instance; the lock of an item leaves it to one of them.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::Job;
use crate::archive::{ArchiveError, ArchiveRun, Archiver};
use shop_domain::ShardId;

/// How long one run archives; the next run goes on behind it.
const RUN_MAX: Duration = Duration::from_secs(120);

/// The job that archives orders.
pub struct ArchiveOrders {
    pub archiver: Archiver,
    /// The ledger.
    pub shard: ShardId,
}

#[async_trait]
impl Job for ArchiveOrders {
    async fn run(&self) -> Result<String, String> {
        let run = self.archiver.run(self.shard, Instant::now() + RUN_MAX).await;
        let ArchiveRun { items, orders, kept } = run.map_err(|error| error.to_string())?;
        let is_fault =
            |error: &ArchiveError| !matches!(error, ArchiveError::Open(_) | ArchiveError::Busy);
        match kept.iter().find(|(_, error)| is_fault(error)) {
            Some((item, error)) => Err(format!("item {item} not archived: {error}")),
            None => {
                Ok(format!("{items} items and {orders} orders archived; {} not yet", kept.len()))
            }
        }
    }
}
