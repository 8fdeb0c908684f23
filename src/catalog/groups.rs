//! Groups of items that share a limit.

use super::Catalog;
use ledger::catalog;
use ledger::rows::actions::Actor;
use ledger::rows::limit_groups;
use shop_domain::{LedgerError, LimitGroup};

/// The reason why a group was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// There are as many groups as there may be.
    #[error("too many groups")]
    TooMany,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Catalog {
    /// Lists the groups, oldest first.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn limit_groups(&self) -> Result<Vec<LimitGroup>, LedgerError> {
        self.ledger.read(limit_groups::list(&self.ledger.pool)).await
    }

    /// Creates a group for an operator.
    pub async fn create_limit_group(
        &self,
        name: &str,
        per_buyer_limit: u32,
        actor: &Actor,
    ) -> Result<LimitGroup, GroupError> {
        if self.limit_groups().await?.len() >= limit_groups::GROUPS_MAX {
            return Err(GroupError::TooMany);
        }
        Ok(catalog::create_group(&self.ledger, name, per_buyer_limit, actor).await?)
    }
}
