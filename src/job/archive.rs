//! The job that archives the orders of sales that ended long ago.
//!
//! It runs in every instance; the lock of an item leaves it to one of them.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use time::OffsetDateTime;

use super::Job;
use crate::archive::{ArchiveRun, Archiver};
use shop_domain::ShardId;
use shop_metrics::archive::ArchiveMetrics;

/// How long one run archives; the next run goes on behind it.
const RUN_MAX: Duration = Duration::from_secs(120);

/// The job that archives orders.
pub struct ArchiveOrders {
    archiver: Archiver,
    shard: ShardId,
    metrics: ArchiveMetrics,
}

impl ArchiveOrders {
    /// The job of one ledger, with the metrics of that ledger.
    pub fn new(archiver: Archiver, shard: ShardId, metrics: ArchiveMetrics) -> Self {
        Self { archiver: archiver.counting(metrics.clone()), shard, metrics }
    }
}

#[async_trait]
impl Job for ArchiveOrders {
    async fn run(&self) -> Result<String, String> {
        let run = self.archiver.run(self.shard, Instant::now() + RUN_MAX).await;
        let ArchiveRun { items, orders, kept } = run.map_err(|error| error.to_string())?;
        match kept.iter().find(|(_, error)| error.is_fault()) {
            Some((item, error)) => Err(format!("item {item} not archived: {error}")),
            None => {
                self.metrics.ended_at.set(OffsetDateTime::now_utc().unix_timestamp());
                Ok(format!("{items} items and {orders} orders archived; {} not yet", kept.len()))
            }
        }
    }
}
