//! The flip of a move, with all that must hold for it, and the tidying up behind it.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::future::try_join_all;

use super::close::MoveEndpoints;
use super::{MoveError, MoveResult, MoveState, Mover};
use crate::rows::link::{TRANSACTION_MAX, within};
use crate::rows::moves::{self, ItemMove};
use crate::rows::{LedgerTransaction, begin, limit_groups, replication};
use shop_domain::{LimitGroupId, ShardId};

/// An item that is copied and closed, ready to be flipped.
pub(super) struct Carried {
    /// Rows that were compared.
    pub rows: usize,
    /// When the pause began, if this mover closed the item.
    pub began: Option<Instant>,
    /// The transaction that has locked the item's groups; `None` for an item of no group.
    pub lock: Option<LedgerTransaction<'static>>,
}

impl Mover {
    /// Checks that no ledger of the move reports a fault of its replication: a failover there would lose the
    /// copy, or the record of where the item lives.
    pub(super) async fn check_replication(
        &self,
        ends: &MoveEndpoints<'_>,
    ) -> Result<(), MoveError> {
        let asked = [
            (ShardId::HOME, ends.home),
            (ends.of.source, ends.source),
            (ends.of.target, ends.target),
        ]
        .map(|(shard, pool)| async move {
            match replication::read_from(pool).await?.fault() {
                Some(fault) => Err(MoveError::Replication(shard, fault)),
                None => Ok(()),
            }
        });
        try_join_all(asked).await.map(drop)
    }

    pub(super) async fn flip(
        &self,
        ends: &MoveEndpoints<'_>,
        carried: Carried,
    ) -> Result<MoveResult, MoveError> {
        let Carried { rows, began, lock } = carried;
        match self.flip_all(std::slice::from_ref(ends), lock).await {
            Ok(()) => {}
            Err(MoveError::Superseded) => {
                ends.give_up().await?;
                self.tidy_up_later(ends).await;
                let why = "the home ledger did not take the new home".to_owned();
                return Err(MoveError::GivenUp { home: ends.of.source, why, passes: true });
            }
            Err(error) => return Err(error),
        }
        let pause = began.map(|began| began.elapsed());
        Ok(MoveResult { home: ends.of.target, epoch: ends.of.epoch, rows, pause, given_up: 0 })
    }

    /// Locks groups in the home ledger until the transaction ends: no item joins them meanwhile. Without a
    /// group there is no transaction, because the server ends one that idles during a long pause.
    pub(super) async fn lock_groups(
        &self,
        groups: &BTreeSet<LimitGroupId>,
    ) -> Result<Option<LedgerTransaction<'static>>, MoveError> {
        if groups.is_empty() {
            return Ok(None);
        }
        let mut lock = within(TRANSACTION_MAX, begin(self.home()?)).await?;
        for group in groups {
            within(TRANSACTION_MAX, limit_groups::lock(&mut lock, *group)).await?;
        }
        Ok(Some(lock))
    }

    /// Flips all moves in the transaction that has locked their groups, or in one of its own.
    pub(super) async fn flip_all(
        &self,
        all: &[MoveEndpoints<'_>],
        lock: Option<LedgerTransaction<'static>>,
    ) -> Result<(), MoveError> {
        let records: Vec<ItemMove> = all.iter().map(|ends| ends.of.clone()).collect();
        let home = self.home()?;
        let flip = async {
            let mut lock = match lock {
                Some(lock) => lock,
                None => begin(home).await?,
            };
            if moves::flip_together(&mut lock, &records).await? {
                lock.commit().await?;
            }
            Ok(())
        };
        if let Err(error) = within(TRANSACTION_MAX, flip).await {
            // The COMMIT may have come through: the record tells. All are flipped, or none.
            tracing::warn!(%error, "flip not answered");
        }
        for of in &records {
            let now = moves::find(self.home()?, of.item, of.epoch).await?;
            let state = now.map(|now| now.state);
            if !matches!(state, Some(MoveState::Flipped | MoveState::Done)) {
                return Err(MoveError::Superseded);
            }
        }
        failpoint!("move-flipped");
        Ok(())
    }

    /// Deletes the rows where the item does not live, and ends the record.
    pub(super) async fn tidy_up(&self, ends: &MoveEndpoints<'_>) -> Result<MoveResult, MoveError> {
        self.tidy_up_after(ends, false).await
    }

    /// Tidies up behind a move that was given up. The item sells already; what a ledger that is away keeps,
    /// the service deletes later.
    pub(super) async fn tidy_up_later(&self, ends: &MoveEndpoints<'_>) {
        if let Err(error) = self.tidy_up(ends).await {
            let (item, shard) = (ends.of.item, ends.of.target);
            tracing::warn!(%error, %item, %shard, "copied rows not deleted yet; the service tries again");
        }
    }

    pub(super) async fn tidy_up_after(
        &self,
        ends: &MoveEndpoints<'_>,
        waited: bool,
    ) -> Result<MoveResult, MoveError> {
        let now = moves::find(ends.home, ends.of.item, ends.of.epoch).await?;
        let is_flipped = match now.map(|of| (of.state, of.ended_at)) {
            Some((MoveState::Flipped, None)) => true,
            Some((MoveState::GivenUp, None)) => false,
            _ => return Err(MoveError::Superseded),
        };
        let home = if is_flipped { ends.of.target } else { ends.of.source };
        if is_flipped {
            // Of a group that moves together, the first waits for all.
            if !waited {
                tokio::time::sleep(self.limits.route_age_max).await;
            }
            ends.remove_source().await?;
        } else {
            ends.remove_target().await?;
        }
        failpoint!("move-removed");
        moves::end(ends.home, &ends.of).await?;
        Ok(MoveResult { home, epoch: ends.of.epoch, rows: 0, pause: None, given_up: 0 })
    }
}
