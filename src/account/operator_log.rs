//! The log of operators' actions. A change of an item writes its line in its own transaction, see
//! `catalog`; every other action is recorded here.

use ledger::route::{Ledger, Shards};
use ledger::rows::{self, actions, failed_read};
use shop_domain::{ItemId, LedgerError, OrderId, UserId};

pub use ledger::rows::actions::{Action, Actor};

/// The log, in the ledger. Clones share it.
#[derive(Clone)]
pub struct OperatorLog {
    ledgers: Shards<Ledger>,
}

impl OperatorLog {
    /// Makes the log of these ledgers: each has the actions on its items, and the home ledger all others.
    #[must_use]
    pub fn new(ledgers: Shards<Ledger>) -> Self {
        Self { ledgers }
    }

    /// Writes a line for an action outside of the ledger; `detail` has its parameters.
    pub async fn record(
        &self,
        actor: &Actor,
        action: &'static str,
        item: Option<ItemId>,
        detail: &serde_json::Value,
    ) -> ledger::Result<()> {
        actions::record_alone(&self.ledgers.home().pool, actor, action, item, detail).await
    }

    /// Reads at most `limit` lines, newest first, those older than the line `before`: of `operator`
    /// alone, or of all.
    pub async fn list(
        &self,
        operator: Option<UserId>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        let mut all = Vec::new();
        for (_, Ledger { pool, breaker }) in self.ledgers.iter() {
            let listed = actions::list(pool, operator, before, limit);
            all.extend(rows::ask(breaker, listed).await.map_err(|error| failed_read(&error))?);
        }
        if self.ledgers.if_only().is_none() {
            all.sort_unstable_by_key(|action| std::cmp::Reverse(action.id));
            all.dedup_by_key(|action| action.id);
            all.truncate(limit as usize);
        }
        Ok(all)
    }
}
