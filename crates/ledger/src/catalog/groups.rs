//! Groups of items that share a limit.

use serde_json::json;
use sqlx::MySqlConnection;

use crate::Ledger;
use crate::route::Shards;
use crate::rows::actions::{self, Actor};
use crate::rows::{LedgerTransaction, begin, change, failed_read, limit_groups};
use shop_domain::{LedgerError, LimitGroup, LimitGroupId, ShardId};

/// Creates a group for an operator, in the home ledger.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create_group(
    home: &Ledger,
    name: &str,
    per_buyer_limit: u32,
    actor: &Actor,
) -> Result<LimitGroup, LedgerError> {
    let created = home.change(|transaction| {
        Box::pin(async move {
            let group = limit_groups::insert(transaction, name, per_buyer_limit, actor.now).await?;
            let detail =
                json!({ "id": group.id.get(), "name": name, "per_buyer_limit": per_buyer_limit });
            actions::record(transaction, actor, "limit_group_created", None, &detail).await?;
            Ok(group)
        })
    });
    created.await
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
pub struct GroupForItem {
    id: LimitGroupId,
    /// With several ledgers: the group, locked in the home ledger until this is dropped.
    copied: Option<(LimitGroup, LedgerTransaction<'static>)>,
    /// Where its items live, if it has any.
    shard: Option<ShardId>,
}

impl GroupForItem {
    /// Finds a group for an item that is to live in `shard`, or in any ledger. The items of a group live
    /// in one ledger, since they share the rows of its buyers.
    ///
    /// # Errors
    /// See [`GroupForItemError`].
    pub async fn find(
        ledgers: &Shards<Ledger>,
        id: LimitGroupId,
        shard: Option<ShardId>,
    ) -> Result<Self, GroupForItemError> {
        let home = ledgers.home();
        if ledgers.homes().is_only() {
            let exists = home.read(limit_groups::exists(&home.pool, id)).await?;
            let group = Self { id, copied: None, shard: None };
            return if exists { Ok(group) } else { Err(GroupForItemError::NotFound) };
        }
        let lock = async {
            let mut lock = begin(&home.pool).await?;
            let group = limit_groups::lock(&mut lock, id).await?;
            Ok((lock, group))
        };
        let locked = change(&home.breaker, lock).await;
        let (lock, group) = locked.map_err(|error| failed_read(&error))?;
        let group = group.ok_or(GroupForItemError::NotFound)?;
        let mut there = None;
        for (at, ledger) in ledgers.iter() {
            for item in ledger.read(limit_groups::items(&ledger.pool, id)).await? {
                // Not what a move has copied, or left behind.
                let home = ledgers.homes().find_again(item).await.map_err(LedgerError::from)?;
                if home.shard == at {
                    there = Some(at);
                }
            }
        }
        if there.is_some_and(|there| shard.is_some_and(|shard| shard != there)) {
            return Err(GroupForItemError::Elsewhere);
        }
        Ok(Self { id, copied: Some((group, lock)), shard: there })
    }

    /// The id of the group.
    #[must_use]
    pub fn id(&self) -> LimitGroupId {
        self.id
    }

    /// Where the group's items live, if it has any.
    #[must_use]
    pub fn shard(&self) -> Option<ShardId> {
        self.shard
    }

    /// Writes the group into an item's own ledger, where it is not yet.
    pub(super) async fn copy_to(&self, transaction: &mut MySqlConnection) -> sqlx::Result<()> {
        match &self.copied {
            Some((group, _)) => limit_groups::copy(transaction, group).await,
            None => Ok(()),
        }
    }
}
