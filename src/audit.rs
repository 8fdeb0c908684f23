//! Audits a sale: reads its figures from the ledger and Redis, and verifies the invariants of
//! [`domain::audit`](crate::domain::audit).

use sqlx::MySqlPool;

use crate::domain::audit::{Report, verify};
use crate::domain::{ItemId, LedgerError};
use crate::store::breaker::Breaker;
use crate::store::mysql::{self, audit, failed_read};
use crate::store::redis::{Buckets, Counters};
use crate::store::shards::Shards;

/// Audits one item; `None` when it does not exist. Without `counters`, or while Redis does not
/// answer, the invariant about Redis is left out.
///
/// # Errors
/// The database's.
pub async fn audit(
    pool: &MySqlPool,
    counters: Option<&Counters>,
    id: ItemId,
) -> sqlx::Result<Option<Report>> {
    let Some(mut facts) = audit::facts(pool, id).await? else { return Ok(None) };
    if let Some(counters) = counters {
        let seen = counters.peek_with_queue(id).await.ok().flatten();
        facts.redis_available = seen.map(|seen| seen.counter.available);
        facts.redis_queued = seen.map_or(0, |seen| seen.queued);
        let buckets = Buckets::beside(counters).peek(id).await.ok().flatten();
        facts.redis_buckets = buckets.map(|parts| parts.iter().map(|part| part.available).sum());
    }
    Ok(Some(verify(facts)))
}

/// The parts of one ledger that audits use.
#[derive(Clone)]
#[expect(missing_docs, reason = "each part is documented at its type")]
pub struct LedgerParts {
    pub pool: MySqlPool,
    pub breaker: Breaker,
    pub counters: Counters,
}

/// Audits sales while the service runs. Clones share everything.
#[derive(Clone)]
pub struct Auditor {
    ledgers: Shards<LedgerParts>,
}

impl Auditor {
    /// Makes an auditor of these ledgers.
    #[must_use]
    pub fn new(ledgers: Shards<LedgerParts>) -> Self {
        Self { ledgers }
    }

    /// Audits one item; `None` when it does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn audit(&self, id: ItemId) -> Result<Option<Report>, LedgerError> {
        let ledger = self.ledgers.of_item(id).await.map_err(|_| LedgerError::Unavailable)?.0;
        let audited = audit(&ledger.pool, Some(&ledger.counters), id);
        mysql::ask(&ledger.breaker, audited).await.map_err(|error| failed_read(&error))
    }
}
