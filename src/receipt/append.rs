//! Appends what waits to the logs. Any instance may do it, at any time and again.

use futures::{StreamExt, stream};

use super::Receipts;
use ledger::rows::{Fault, nothing_was_sent};
use shop_domain::{ItemRoute, ShardId};

/// Logs that are appended to at once.
const AT_ONCE: usize = 4;
/// Entries of a batch that is followed by another one at once.
const FULL: usize = 10_000;

impl Receipts {
    /// Appends what waits to the logs of one ledger; returns how many entries, and how many logs failed. An error belongs to
    /// its log: it is logged, and the others go on.
    ///
    /// # Errors
    /// The database's, when it does not answer.
    pub async fn append(&self, shard: ShardId) -> ledger::Result<(usize, usize)> {
        let waiting = self.ledgers.at(shard).waiting().await?;
        let routed = self.ledgers.homes().routed_in(shard, waiting).await;
        let routed = routed.map_err(|_| ledger::Error::PoolTimedOut)?;
        let all = routed.into_iter().map(|routed| self.append_or_log(routed));
        let mut all = stream::iter(all).buffer_unordered(AT_ONCE);
        let (mut entries, mut failed) = (0, 0);
        while let Some(appended) = all.next().await {
            match appended? {
                Some(count) => entries += count,
                None => failed += 1,
            }
        }
        Ok((entries, failed))
    }

    /// Returns the number of entries; `None` when the log failed, and an error when its ledger did.
    async fn append_or_log(&self, routed: ItemRoute) -> ledger::Result<Option<usize>> {
        let logs = self.ledgers.at(routed.home.shard);
        let mut entries = 0;
        loop {
            match logs.append(routed).await {
                Ok(count) => {
                    entries += count;
                    if count < FULL {
                        return Ok(Some(entries));
                    }
                }
                // It goes on after the move, wherever the item is by then.
                Err(error) if Fault::of(&error) == Fault::Moved => return Ok(Some(entries)),
                Err(error) if nothing_was_sent(&error) => return Err(error),
                Err(error) => {
                    let item = routed.item;
                    tracing::warn!(%error, %item, "log not appended to; a later run tries again");
                    return Ok(None);
                }
            }
        }
    }
}
