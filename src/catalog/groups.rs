//! Groups of items that share a limit.

use serde_json::json;
use sqlx::MySqlConnection;

use super::{Catalog, LedgerParts, away};
use ledger::rows::actions::{self, Actor};
use ledger::rows::{self, failed_change, failed_read, limit_groups};
use shop_domain::{LedgerError, LimitGroup, LimitGroupId, ShardId};

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
        let LedgerParts { pool, breaker, .. } = &self.ledgers.home().parts;
        let listed = rows::ask(breaker, limit_groups::list(pool)).await;
        listed.map_err(|error| failed_read(&error))
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
        let LedgerParts { pool, breaker, .. } = &self.ledgers.home().parts;
        let create = async {
            let mut transaction = rows::begin(pool).await?;
            let group =
                limit_groups::insert(&mut transaction, name, per_buyer_limit, actor.now).await?;
            let detail =
                json!({ "id": group.id.get(), "name": name, "per_buyer_limit": per_buyer_limit });
            actions::record(&mut transaction, actor, "limit_group_created", None, &detail).await?;
            transaction.commit().await?;
            Ok(group)
        };
        let created = rows::change(breaker, create).await;
        Ok(created.map_err(|error| failed_change(&error))?)
    }

    /// Finds a group for an item that is to live in `shard`, or in any ledger. The items of a group live
    /// in one ledger, since they share the rows of its buyers.
    pub(super) async fn group_for(
        &self,
        id: LimitGroupId,
        shard: Option<ShardId>,
    ) -> Result<GroupForItem, GroupForItemError> {
        let LedgerParts { pool, breaker, .. } = &self.ledgers.home().parts;
        if self.ledgers.homes().is_only() {
            let found = rows::ask(breaker, limit_groups::exists(pool, id)).await;
            let exists = found.map_err(|error| failed_read(&error))?;
            let group = GroupForItem { id, copied: None, shard: None };
            return if exists { Ok(group) } else { Err(GroupForItemError::NotFound) };
        }
        let lock = async {
            let mut lock = rows::begin(pool).await?;
            let group = limit_groups::lock(&mut lock, id).await?;
            Ok((lock, group))
        };
        let locked = rows::change(breaker, lock).await;
        let (lock, group) = locked.map_err(|error| failed_read(&error))?;
        let group = group.ok_or(GroupForItemError::NotFound)?;
        let mut there = None;
        for (at, ledger) in self.ledgers.iter() {
            let LedgerParts { pool, breaker, .. } = &ledger.parts;
            let items = rows::ask(breaker, limit_groups::items(pool, id)).await;
            for item in items.map_err(|error| failed_read(&error))? {
                // Not what a move has copied, or left behind.
                let home = self.ledgers.homes().find_again(item).await.map_err(away)?;
                if home.shard == at {
                    there = Some(at);
                }
            }
        }
        if there.is_some_and(|there| shard.is_some_and(|shard| shard != there)) {
            return Err(GroupForItemError::Elsewhere);
        }
        Ok(GroupForItem { id, copied: Some((group, lock)), shard: there })
    }
}

/// The reason why an item cannot be in a group; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupForItemError {
    /// There is no such group of items.
    #[error("no such group")]
    NotFound,
    /// The other items of the group live in another ledger.
    #[error("the group's items live in another shard")]
    Elsewhere,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A group that an item is about to join.
pub(super) struct GroupForItem {
    id: LimitGroupId,
    /// With several ledgers: the group, locked in the home ledger until this is dropped.
    copied: Option<(LimitGroup, rows::LedgerTransaction<'static>)>,
    /// Where its items live, if it has any.
    shard: Option<ShardId>,
}

impl GroupForItem {
    pub(super) fn id(&self) -> LimitGroupId {
        self.id
    }

    pub(super) fn shard(&self) -> Option<ShardId> {
        self.shard
    }

    /// Writes the group into an item's own ledger, where it is not yet.
    pub(super) async fn copy_to(&self, transaction: &mut MySqlConnection) -> ledger::Result<()> {
        match &self.copied {
            Some((group, _)) => limit_groups::copy(transaction, group).await,
            None => Ok(()),
        }
    }
}
