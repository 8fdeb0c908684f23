//! The log of operators' actions, as pages show it. Who does something writes its line, most in the transaction of the
//! change.

use ledger::Ledger;
use ledger::rows::actions;
use shop_domain::{LedgerError, OrderId, UserId};

pub use ledger::rows::actions::{Action, Actor, NAMES as ACTION_NAMES};

/// The log, in the ledger. Clones share it.
#[derive(Clone)]
pub struct OperatorLog(pub Ledger);

impl OperatorLog {
    /// Reads at most `limit` lines, newest first, those older than the line `before`: of `operator`
    /// alone, or of all.
    pub async fn list(
        &self,
        operator: Option<UserId>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        self.0.read(actions::list(&self.0.pool, operator, before, limit)).await
    }
}
