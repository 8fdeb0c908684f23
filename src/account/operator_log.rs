//! The log of operators' actions. A change of an item writes its line in its own transaction, see
//! `catalog`; every other action is recorded here.

use sqlx::MySqlPool;

use crate::domain::{ItemId, LedgerError, OrderId, UserId};
use crate::store::breaker::Breaker;
use crate::store::mysql::{self, actions, failed_read};

pub use crate::store::mysql::actions::{Action, Actor};

/// The log, in the ledger. Clones share it.
#[derive(Clone)]
pub struct OperatorLog {
    pool: MySqlPool,
    breaker: Breaker,
}

impl OperatorLog {
    /// Makes the log of the ledger behind `pool` and its `breaker`.
    #[must_use]
    pub fn new(pool: MySqlPool, breaker: Breaker) -> Self {
        Self { pool, breaker }
    }

    /// Writes a line for an action outside of the ledger; `detail` has its parameters.
    ///
    /// # Errors
    /// The database's.
    pub async fn record(
        &self,
        actor: &Actor,
        action: &'static str,
        item: Option<ItemId>,
        detail: &serde_json::Value,
    ) -> sqlx::Result<()> {
        let mut connection = self.pool.acquire().await?;
        actions::record(&mut connection, actor, action, item, detail).await
    }

    /// Reads at most `limit` lines, newest first, those older than the line `before`: of `operator`
    /// alone, or of all.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn list(
        &self,
        operator: Option<UserId>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        let listed = actions::list(&self.pool, operator, before, limit);
        mysql::ask(&self.breaker, listed).await.map_err(|error| failed_read(&error))
    }
}
