//! Groups of items that share a limit.

use serde_json::json;

use super::Catalog;
use crate::domain::{LedgerError, LimitGroup};
use crate::store::mysql::actions::{self, Actor};
use crate::store::mysql::{self, failed_change, failed_read, limit_groups};

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
        let listed = mysql::ask(&self.breaker, limit_groups::list(&self.pool)).await;
        listed.map_err(|error| failed_read(&error))
    }

    /// Creates a group for an operator.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn create_limit_group(
        &self,
        name: &str,
        per_buyer_limit: u32,
        actor: &Actor,
    ) -> Result<LimitGroup, GroupError> {
        if self.limit_groups().await?.len() >= limit_groups::GROUPS_MAX {
            return Err(GroupError::TooMany);
        }
        let create = async {
            let mut transaction = self.pool.begin().await?;
            let group =
                limit_groups::insert(&mut transaction, name, per_buyer_limit, actor.now).await?;
            let detail =
                json!({ "id": group.id.get(), "name": name, "per_buyer_limit": per_buyer_limit });
            actions::record(&mut transaction, actor, "limit_group_created", None, &detail).await?;
            transaction.commit().await?;
            Ok(group)
        };
        let created = mysql::change(&self.breaker, create).await;
        Ok(created.map_err(|error| failed_change(&error))?)
    }
}
