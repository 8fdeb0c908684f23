//! The job that appends what happened to the logs of sales, and signs them.

use async_trait::async_trait;

use super::Job;
use crate::receipt::Receipts;
use shop_domain::ShardId;

/// The job that appends to the logs of one ledger.
pub struct AppendReceipts {
    pub receipts: Receipts,
    pub shard: ShardId,
}

#[async_trait]
impl Job for AppendReceipts {
    async fn run(&self) -> Result<String, String> {
        let append = self.receipts.append(self.shard).await;
        let (entries, failed) = append.map_err(|error| error.to_string())?;
        if failed == 0 {
            return Ok(format!("{entries} entries appended"));
        }
        Err(format!("{failed} logs failed, see the log"))
    }
}
