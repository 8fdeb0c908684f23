//! Moving the items of a limit group together: they share the rows of its buyers, so all live in one ledger.
//!
//! Each item has a move of its own, with its own record and epoch, so that every write is fenced as for a
//! single item. All are closed before the last rows are copied, and all are flipped in one transaction. Until
//! then the groups are locked in the home ledger, so that no item joins them meanwhile. A move that was broken
//! off before the flip is given up, by the same command or by the service: an item alone must not go on.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::Database;

use super::close::MoveEndpoints;
use super::{MoveError, MoveResult, MoveState, Mover};
use crate::rows::{limit_groups, moves};
use shop_domain::{ItemId, LimitGroupId, ShardId};

/// Items that are connected by limits, and these limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupMove {
    items: BTreeSet<ItemId>,
    groups: BTreeSet<LimitGroupId>,
}

impl Mover {
    /// Moves all items of a limit group to `target`, and those that share another limit with one of them.
    pub async fn move_group(
        &self,
        group: LimitGroupId,
        target: ShardId,
    ) -> Result<Vec<(ItemId, MoveResult)>, MoveError> {
        self.ledger(target)?;
        let (source, together) = self.connected(group).await?;
        let mut locks = Vec::new();
        for item in &together.items {
            locks.push(self.lock(*item).await?);
        }
        for item in &together.items {
            self.end_before(*item).await?;
        }
        if source == target {
            return Err(MoveError::AtHome(target));
        }
        let mut all = Vec::new();
        for item in &together.items {
            let of = self.record(*item, target).await?;
            let layouts = self.layouts_of(&of).await?;
            all.push(MoveEndpoints { is_grouped: true, layouts, ..self.ends(of)? });
        }
        match self.carry_all_over(&all, (source, group), &together).await {
            Ok(mut moved) => {
                for (index, ends) in all.iter().enumerate() {
                    self.tidy_up_after(ends, index > 0).await?;
                }
                let items = together.items.iter().copied();
                Ok(items.zip(moved.drain(..)).collect())
            }
            Err(error) => {
                tracing::warn!(%error, %group, "move of a group not completed");
                for ends in &all {
                    ends.give_up().await?;
                }
                for ends in &all {
                    self.tidy_up_later(ends).await;
                }
                let passes = !matches!(error, MoveError::TooLarge(_) | MoveError::Ordered(_));
                Err(MoveError::GivenUp { home: source, why: error.to_string(), passes })
            }
        }
    }

    /// Ends a move that was broken off: one that was flipped is completed, any other is given up.
    async fn end_before(&self, item: ItemId) -> Result<(), MoveError> {
        let Some(of) = moves::under_way(self.home()?, item).await? else { return Ok(()) };
        let ends = self.ends(of)?;
        if matches!(ends.of.state, MoveState::Copying | MoveState::Closed) {
            ends.give_up().await?;
        }
        self.tidy_up(&ends).await.map(drop)
    }

    /// Copies all items, closes them together, compares both sides and flips.
    async fn carry_all_over(
        &self,
        all: &[MoveEndpoints<'_>],
        (source, group): (ShardId, LimitGroupId),
        together: &GroupMove,
    ) -> Result<Vec<MoveResult>, MoveError> {
        for ends in all {
            Box::pin(self.copy_while_it_sells(ends)).await?;
        }
        let lock = self.lock_groups(&together.groups).await?;
        if connected_in(self.ledger(source)?, group).await? != *together {
            return Err(MoveError::GroupChanged);
        }
        for ends in all {
            self.check_replication(ends).await?;
        }
        let began = Instant::now();
        for ends in all {
            ends.close().await?;
        }
        failpoint!("move-source-closed");
        // An item may have joined since. From now on none can, because its stock row has another epoch.
        if connected_in(self.ledger(source)?, group).await? != *together {
            return Err(MoveError::GroupChanged);
        }
        let rest = async {
            let mut rows = Vec::new();
            for ends in all {
                rows.push(self.copy_the_rest(ends).await?);
            }
            Ok::<_, MoveError>(rows)
        };
        let rows = match tokio::time::timeout(self.limits.pause_max, rest).await {
            Ok(rows) => rows?,
            Err(_) => return Err(MoveError::PauseTooLong(self.limits.pause_max.as_millis())),
        };
        self.flip_all(all, lock).await?;
        let pause = Some(began.elapsed());
        let moved = all.iter().zip(rows).map(|(ends, rows)| {
            let (home, epoch) = (ends.of.target, ends.of.epoch);
            MoveResult { home, epoch, rows, pause, given_up: 0 }
        });
        Ok(moved.collect())
    }

    /// Finds the ledger of a group's items, with all that are connected with them.
    async fn connected(&self, group: LimitGroupId) -> Result<(ShardId, GroupMove), MoveError> {
        for (shard, pool) in &self.ledgers {
            for item in limit_groups::items(pool, group).await? {
                // Not what a move has copied, or left behind.
                if moves::home(self.home()?, item).await?.0 == *shard {
                    return Ok((*shard, connected_in(pool, group).await?));
                }
            }
        }
        Err(MoveError::EmptyGroup(group))
    }
}

/// Finds the items of a group, those of their other groups, and so on.
async fn connected_in(pool: &Database, group: LimitGroupId) -> Result<GroupMove, MoveError> {
    let mut together = GroupMove::default();
    let mut new_groups = vec![group];
    while let Some(group) = new_groups.pop() {
        if !together.groups.insert(group) {
            continue;
        }
        for item in limit_groups::items(pool, group).await? {
            if together.items.insert(item) {
                new_groups.extend(limit_groups::of_item(pool, item).await?);
            }
        }
    }
    Ok(together)
}
