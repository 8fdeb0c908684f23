//! The log of operators' actions. A change of an item writes its line in its own transaction, see
//! `catalog`; every other action is recorded here.

use ledger::Ledger;
use ledger::rows::actions;
use shop_domain::{ItemId, LedgerError, OrderId, UserId};

pub use ledger::rows::actions::{Action, Actor, NAMES as ACTION_NAMES};

/// The log, in the ledger. Clones share it.
#[derive(Clone)]
pub struct OperatorLog {
    ledger: Ledger,
}

impl OperatorLog {
    /// Makes the log in `ledger`.
    #[must_use]
    pub fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Writes a line for an action outside of the ledger; `detail` has its parameters.
    pub async fn record(
        &self,
        actor: &Actor,
        action: &'static str,
        item: Option<ItemId>,
        detail: &serde_json::Value,
    ) -> ledger::Result<()> {
        actions::record_alone(&self.ledger.pool, actor, action, item, detail).await
    }

    /// Reads at most `limit` lines, newest first, those older than the line `before`: of `operator`
    /// alone, or of all.
    pub async fn list(
        &self,
        operator: Option<UserId>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        self.ledger.read(actions::list(&self.ledger.pool, operator, before, limit)).await
    }
}
