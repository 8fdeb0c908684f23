//! Audits a sale: reads its figures from the ledger and Redis, and verifies the invariants of
//! [`domain::audit`](shop_domain::audit).

use gates::redis_store::{Buckets, Counters};
use ledger::Ledger;
use ledger::rows::audit;
use ledger::rows::redis_lists::CounterLayout;
use mysql_connection::Database;
use shop_domain::audit::{Report, verify};
use shop_domain::{ItemId, LedgerError};

/// Audits one item; `None` when it does not exist. Without `counters`, or while Redis does not
/// answer, the invariant about Redis is left out. So is a counter whose epoch is not the ledger's: gates load it
/// again before they use it.
pub async fn audit(
    pool: &Database,
    counters: Option<&Counters>,
    id: ItemId,
) -> ledger::Result<Option<Report>> {
    let Some(mut facts) = audit::facts(pool, id).await? else { return Ok(None) };
    if let Some(counters) = counters {
        let whole = CounterLayout::Whole.epoch(pool, id).await?;
        let seen = counters.peek_with_queue(id).await.ok().flatten();
        let seen = seen.filter(|seen| Some(seen.counter.epoch) == whole);
        facts.redis_available = seen.map(|seen| seen.counter.available);
        facts.redis_queued = seen.map_or(0, |seen| seen.queued);
        let split = CounterLayout::Split.epoch(pool, id).await?;
        let buckets = Buckets::beside(counters).peek(id).await.ok().flatten();
        let buckets = buckets.filter(|parts| parts.iter().all(|part| Some(part.epoch) == split));
        facts.redis_buckets = buckets.map(|parts| parts.iter().map(|part| part.available).sum());
    }
    Ok(Some(verify(facts)))
}

/// Audits sales while the service runs. Clones share everything.
#[derive(Clone)]
pub struct Auditor {
    pub ledger: Ledger,
    pub counters: Counters,
}

impl Auditor {
    /// Audits one item; `None` when it does not exist.
    pub async fn audit(&self, id: ItemId) -> Result<Option<Report>, LedgerError> {
        self.ledger.read(audit(&self.ledger.pool, Some(&self.counters), id)).await
    }
}
