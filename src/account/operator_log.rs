//! The log of operators' actions, as pages show it. Who does something writes its line, most in the transaction of the
//! change.

use ledger::Ledger;
use ledger::rows::actions;
use shop_domain::{LedgerError, OrderId, UserId};

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
