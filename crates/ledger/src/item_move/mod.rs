//! Moves an item from one ledger to another while others sell.
//!
//! The item is closed only while the last rows are copied and compared: a fraction of a second. The
//! record of the move in the home ledger says how far it has come, and each step may be done again, so
//! a mover that was killed is replaced by another one.
//!
//! | step | what happens | the item |
//! |---|---|---|
//! | `copying` | rows are copied in rounds, until a round brings few | sells at the source |
//! | `closed` | the source's epoch is raised, so that no route leads there; the rest is copied; both sides are compared | is paused |
//! | `flipped` | the home says: target; the source's rows are deleted | sells at the target |
//!
//! # What keeps two movers apart
//! A lock with a name (`lock.rs`) is held by one mover. It ends with its connection, so a mover that was
//! stopped for long may wake up beside its successor. Therefore each write has a condition of its own:
//!
//! * The record changes from one state to the next only from the state before.
//! * Rows are written at the target only while its stock row has the epoch 0. The last write gives it the
//!   epoch of the move: then the copy is sealed, and what was compared after that stays so.
//! * Rows are deleted only while the stock row beside them has the epoch of this very move.
//! * An epoch is used once. A move that is given up uses up its epoch too.

pub mod audit;
mod close;
mod copy;
mod error;
mod flip;
mod group;
mod lock;
mod overview;
mod recover;
mod remove;
mod resume;
pub mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Database;
use futures::future::try_join_all;

use crate::route::shards::PART_OF_LIST_MAX;
use crate::rows::limit_groups;
pub use crate::rows::moves::ItemMove;
use crate::rows::moves::{self, MoveState};
use close::MoveEndpoints;
pub use close::close_source;
use copy::Layout;
pub use error::MoveError;
use flip::Carried;
use lock::MoveLock;
pub use overview::{LedgerView, Overview, View};
pub use recover::RecoveryResult;
pub use resume::{ResumeSummary, Watch};
use shop_domain::{ItemId, LimitGroupId, ShardId};
use tables::ITEM_TABLES;

/// The longest pause of an item, in milliseconds, unless the operator gives another one.
pub const PAUSE_MS_MAX: u64 = 1_000;
/// Tries of a move that was given up because of something that passes.
const ATTEMPTS_MAX: u32 = 3;
/// Rounds of copying while the item sells.
const ROUNDS_MAX: u32 = 8;
/// A round that brings no more rows than this is the last one before the pause.
const FEW_ROWS: usize = 200;

/// The limits of a move.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest pause of the item; a move that needs longer is given up.
    pub pause_max: Duration,
    /// For how long an instance may use a route that it has read, and a list may take. Rows at the source
    /// are deleted after this time.
    pub route_age_max: Duration,
}

impl Limits {
    /// Limits for a service whose instances use an item that is `item_age_max` old.
    #[must_use]
    pub fn new(pause_max: Duration, item_age_max: Duration) -> Self {
        // A list that has read the target before the copy must find the orders at the source.
        Self { pause_max, route_age_max: item_age_max + PART_OF_LIST_MAX }
    }
}

/// Moves items between ledgers.
#[derive(Clone, Debug)]
pub struct Mover {
    ledgers: BTreeMap<ShardId, Database>,
    limits: Limits,
    progress: Arc<Progress>,
}

/// How far a move has come, for people.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows that were copied.
    pub rows: AtomicUsize,
    /// Rows of the item at the source.
    pub total: AtomicUsize,
}

/// A move that has ended.
#[derive(Clone, Copy, Debug)]
pub struct MoveResult {
    /// The ledger in which the item lives now.
    pub home: ShardId,
    /// The epoch of the routes to it.
    pub epoch: u64,
    /// Rows that were compared on both sides; 0 where another mover did it.
    pub rows: usize,
    /// The pause of the item; `None` where it began with another mover, or there was none.
    pub pause: Option<Duration>,
    /// Tries that were given up before.
    pub given_up: u32,
}

impl Mover {
    /// Makes a mover between `ledgers`, of which [`ShardId::HOME`] is one.
    #[must_use]
    pub fn new(ledgers: BTreeMap<ShardId, Database>, limits: Limits) -> Self {
        Self { ledgers, limits, progress: Arc::default() }
    }

    /// How far the present move has come.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Moves an item to `target`, or goes on with a move to there that is under way.
    pub async fn move_item(&self, item: ItemId, target: ShardId) -> Result<MoveResult, MoveError> {
        self.ledger(target)?;
        let _lock = self.lock(item).await?;
        let mut given_up = 0;
        loop {
            let of = match moves::under_way(self.home()?, item).await? {
                Some(of) if of.target != target => return Err(MoveError::Elsewhere(Box::new(of))),
                Some(of) => of,
                None => self.begin(item, target).await?,
            };
            let was_given_up = of.state == MoveState::GivenUp;
            match self.drive(of).await {
                // Tidied up behind another mover; now the move itself.
                Ok(_) if was_given_up => {}
                Ok(moved) => return Ok(MoveResult { given_up, ..moved }),
                Err(MoveError::GivenUp { why, passes: true, .. })
                    if given_up + 1 < ATTEMPTS_MAX =>
                {
                    tracing::warn!(%item, why, "move given up; it is tried again");
                    given_up += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks that the item can be moved, and writes the record.
    async fn begin(&self, item: ItemId, target: ShardId) -> Result<ItemMove, MoveError> {
        let (source, _) = moves::home(self.home()?, item).await?;
        check_companions(self.ledger(source)?, item, false).await?;
        self.record(item, target).await
    }

    /// Writes the record of a move.
    async fn record(&self, item: ItemId, target: ShardId) -> Result<ItemMove, MoveError> {
        let (source, epoch) = moves::home(self.home()?, item).await?;
        if source == target {
            return Err(MoveError::AtHome(target));
        }
        let pool = self.ledger(source)?;
        if close::epoch_of(pool, item).await? != Some(epoch) {
            return Err(MoveError::NoItem(item));
        }
        // Before the record: a ledger that is away or of another schema begins no move.
        layouts(pool, self.ledger(target)?).await?;
        let of = moves::begin(self.home()?, item, target).await?;
        failpoint!("move-recorded");
        Ok(of)
    }

    /// Brings a move to its end from wherever it stands.
    async fn drive(&self, of: ItemMove) -> Result<MoveResult, MoveError> {
        let mut ends = self.ends(of)?;
        match ends.of.state {
            MoveState::Copying | MoveState::Closed => {
                let carried = match self.layouts_of(&ends.of).await {
                    Ok(layouts) => {
                        ends.layouts = layouts;
                        self.carry_over(&ends).await
                    }
                    Err(error) => Err(error),
                };
                let carried = match carried {
                    Ok(carried) => carried,
                    Err(error @ (MoveError::Superseded | MoveError::NotAtSource(_))) => {
                        return Err(error);
                    }
                    Err(error) => {
                        tracing::warn!(%error, item = %ends.of.item, "move not completed");
                        ends.give_up().await?;
                        self.tidy_up_later(&ends).await;
                        let passes = !matches!(
                            error,
                            MoveError::TooLarge(_) | MoveError::Grouped(_) | MoveError::Ordered(_)
                        );
                        let (home, why) = (ends.of.source, error.to_string());
                        return Err(MoveError::GivenUp { home, why, passes });
                    }
                };
                let moved = self.flip(&ends, carried).await?;
                self.tidy_up(&ends).await?;
                Ok(moved)
            }
            MoveState::Flipped | MoveState::GivenUp => self.tidy_up(&ends).await,
            MoveState::Done => Err(MoveError::Superseded),
        }
    }

    /// Copies everything, with the item closed at the end, and its groups locked until the flip.
    async fn carry_over(&self, ends: &MoveEndpoints<'_>) -> Result<Carried, MoveError> {
        let mut began = None;
        if ends.was_flipped().await? {
            // The home ledger has forgotten it, such as after a restore. Nothing else is left to copy.
            ends.set_closed().await?;
            let lock = self.lock_groups(&BTreeSet::new()).await?;
            return Ok(Carried { rows: 0, began, lock });
        }
        let is_closed = ends.is_closed().await?;
        if !is_closed {
            check_companions(ends.source, ends.of.item, ends.is_grouped).await?;
            Box::pin(self.copy_while_it_sells(ends)).await?;
            failpoint!("move-copied");
        }
        let groups = groups_of(ends).await?;
        // Held until the flip, so that no item joins the groups at the source meanwhile.
        let lock = self.lock_groups(&groups).await?;
        if !is_closed {
            check_companions(ends.source, ends.of.item, ends.is_grouped).await?;
            self.check_replication(ends).await?;
            began = Some(Instant::now());
            ends.close().await?;
            failpoint!("move-source-closed");
        }
        if groups_of(ends).await? != groups {
            return Err(MoveError::GroupChanged);
        }
        match tokio::time::timeout(self.limits.pause_max, self.copy_the_rest(ends)).await {
            Ok(rows) => Ok(Carried { rows: rows?, began, lock }),
            Err(_) => Err(MoveError::PauseTooLong(self.limits.pause_max.as_millis())),
        }
    }

    /// Copies in rounds, until a round brings few rows.
    async fn copy_while_it_sells(&self, ends: &MoveEndpoints<'_>) -> Result<(), MoveError> {
        ends.open_target().await?;
        self.progress.rows.store(0, Ordering::Relaxed);
        for _ in 0..ROUNDS_MAX {
            let began = Instant::now();
            // The item's row comes last: with it, the target's lists would show the item.
            let layouts = ends.layouts.iter().filter(|layout| layout.table.name != "items");
            let differences = ends.compare(layouts).await?;
            let compared_in = began.elapsed();
            let rows = differences.iter().map(|(_, difference)| difference.rows).sum();
            self.progress.total.store(rows, Ordering::Relaxed);
            if compared_in > self.limits.pause_max / 3 {
                let (ms, limit) = (compared_in.as_millis(), self.limits.pause_max.as_millis());
                let sentence = format!(
                    "comparing the rows takes {ms} ms, too long for a pause of {limit} ms: allow a longer one, or move the item when it sells less"
                );
                return Err(MoveError::TooLarge(sentence));
            }
            let count: usize = differences.iter().map(|(_, difference)| difference.len()).sum();
            for (layout, difference) in &differences {
                ends.copy(layout, difference, &self.progress).await?;
            }
            if count <= FEW_ROWS {
                break;
            }
        }
        Ok(())
    }

    /// Copies what was written before the item was closed, seals the copy and compares both sides.
    async fn copy_the_rest(&self, ends: &MoveEndpoints<'_>) -> Result<usize, MoveError> {
        ends.set_closed().await?;
        failpoint!("move-closed");
        check_companions(ends.source, ends.of.item, ends.is_grouped).await?;
        if !ends.is_sealed().await? {
            ends.open_target().await?;
            let differences = ends.compare(ends.layouts.iter()).await?;
            ends.seal(&differences).await?;
        }
        failpoint!("move-sealed");
        let rows = Box::pin(ends.verify()).await?;
        self.check_replication(ends).await?;
        failpoint!("move-verified");
        Ok(rows)
    }

    /// The ends of a move, without the layouts of the tables, which copying needs: reopening an item asks
    /// nothing of the target.
    fn ends(&self, of: ItemMove) -> Result<MoveEndpoints<'_>, MoveError> {
        let (source, target) = (self.ledger(of.source)?, self.ledger(of.target)?);
        let layouts = Vec::new();
        Ok(MoveEndpoints { of, home: self.home()?, source, target, is_grouped: false, layouts })
    }

    async fn layouts_of(&self, of: &ItemMove) -> Result<Vec<Layout>, MoveError> {
        layouts(self.ledger(of.source)?, self.ledger(of.target)?).await
    }

    async fn lock(&self, item: ItemId) -> Result<MoveLock, MoveError> {
        MoveLock::take(self.home()?, item).await?.ok_or(MoveError::Busy)
    }

    fn home(&self) -> Result<&Database, MoveError> {
        self.ledger(ShardId::HOME)
    }

    fn ledger(&self, shard: ShardId) -> Result<&Database, MoveError> {
        self.ledgers.get(&shard).ok_or(MoveError::UnknownShard(shard))
    }
}

/// Reads the groups that the item of a move is or was in.
async fn groups_of(ends: &MoveEndpoints<'_>) -> sqlx::Result<BTreeSet<LimitGroupId>> {
    let groups = limit_groups::of_item(ends.source, ends.of.item).await?;
    Ok(groups.into_iter().collect())
}

/// Reads the columns of the tables of an item, which must be the same in both ledgers.
async fn layouts(source: &Database, target: &Database) -> Result<Vec<Layout>, MoveError> {
    let read = ITEM_TABLES.iter().map(|table| async move {
        let (here, there) =
            tokio::try_join!(copy::layout(source, *table), copy::layout(target, *table))?;
        let is_same = here.is_like(&there);
        if is_same { Ok(here) } else { Err(MoveError::OtherSchema(table.name)) }
    });
    try_join_all(read).await
}

/// Checks that no other item has to move with this one, unless they move together, and that no order has lines of
/// other items: after the item is closed none is added.
async fn check_companions(
    source: &Database,
    item: ItemId,
    is_grouped: bool,
) -> Result<(), MoveError> {
    let others = close::items_of_its_groups(source, item).await?;
    if others > 0 && !is_grouped {
        return Err(MoveError::Grouped(others));
    }
    match close::orders_with_others(source, item).await? {
        0 => Ok(()),
        orders => Err(MoveError::Ordered(orders)),
    }
}
