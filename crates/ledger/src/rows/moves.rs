//! Moves of items between ledgers, and the homes that they change: statements of the home ledger.

use std::time::Duration;

use crate::Database;
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::link::{TRANSACTION_MAX, answered, within};
use super::statement::{Binds, Read, Write};
use super::transaction::{confirmed, transact};
use shop_domain::{ItemId, ShardId};

/// The most moves that one list returns.
pub const LIST_MAX: u32 = 200;
/// For how long a move that has ended counts as recent.
pub const RECENT: Duration = Duration::from_secs(600);

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveState {
    /// Rows are being copied while the item sells.
    Copying,
    /// The item is closed at its source, and sells nowhere.
    Closed,
    /// The item lives at its target; the rows at the source are being deleted.
    Flipped,
    /// The move is complete.
    Done,
    /// The item stays where it was.
    GivenUp,
}

impl MoveState {
    /// All, in the order of a move.
    pub const ALL: [Self; 5] =
        [Self::Copying, Self::Closed, Self::Flipped, Self::Done, Self::GivenUp];

    /// The word in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Closed => "closed",
            Self::Flipped => "flipped",
            Self::Done => "done",
            Self::GivenUp => "given_up",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A move of an item.
#[derive(Clone, Debug)]
pub struct ItemMove {
    pub item: ItemId,
    /// The epoch that the item has after the move.
    pub epoch: u64,
    /// The ledger that it leaves.
    pub source: ShardId,
    /// The ledger that it goes to.
    pub target: ShardId,
    /// How far it has come.
    pub state: MoveState,
    /// When it began, by the home ledger's clock, as all times here.
    pub started_at: OffsetDateTime,
    /// When the item was closed at its source.
    pub closed_at: Option<OffsetDateTime>,
    /// When the item was open again.
    pub flipped_at: Option<OffsetDateTime>,
    /// When nothing was left to do; `None` while it is under way.
    pub ended_at: Option<OffsetDateTime>,
}

const COLUMNS: &str = ItemMove::COLUMNS;

/// Reads the ledger and the epoch of an item. An item without a row lives in the home ledger since
/// its creation.
pub async fn home(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<(ShardId, u64)> {
    let found = sqlx::query_as("SELECT shard, epoch FROM item_homes WHERE item_id = ?")
        .bind(item.get())
        .first(from)
        .await?;
    Ok(found.unwrap_or((ShardId::HOME, 1)))
}

/// Finds the move of an item that is under way.
pub async fn under_way(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Option<ItemMove>> {
    let statement =
        format!("SELECT {COLUMNS} FROM item_moves WHERE item_id = ? AND ended_at IS NULL");
    sqlx::query_as(&statement).bind(item.get()).first(from).await
}

/// Lists the moves that are under way, oldest first, at most [`LIST_MAX`].
pub async fn all_under_way(from: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<ItemMove>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM item_moves WHERE ended_at IS NULL \
         ORDER BY started_at, item_id LIMIT {LIST_MAX}"
    );
    sqlx::query_as(&statement).all(from).await
}

/// Finds a move by its item and its epoch.
pub async fn find(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
    epoch: u64,
) -> sqlx::Result<Option<ItemMove>> {
    let statement = format!("SELECT {COLUMNS} FROM item_moves WHERE item_id = ? AND epoch = ?");
    sqlx::query_as(&statement).bind(item.get()).bind(epoch).first(from).await
}

/// Lists moves, those under way first, then the newest, at most [`LIST_MAX`].
pub async fn list(from: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<ItemMove>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM item_moves \
         ORDER BY ended_at IS NULL DESC, started_at DESC, item_id LIMIT {LIST_MAX}"
    );
    sqlx::query_as(&statement).all(from).await
}

/// The moves that are under way, and those that ended within [`RECENT`].
#[derive(Clone, Debug)]
pub struct RecentMoves {
    /// The moves, at most [`LIST_MAX`].
    pub moves: Vec<ItemMove>,
    /// The time of the list.
    pub now: OffsetDateTime,
}

impl RecentMoves {
    /// The longest pause of an item in a move that ended.
    #[must_use]
    pub fn pause_max(&self) -> Duration {
        let pauses = self.moves.iter().filter_map(|of| {
            let (closed, flipped) = of.closed_at.zip(of.flipped_at)?;
            Duration::try_from(flipped - closed).ok()
        });
        pauses.max().unwrap_or_default()
    }
}

/// Lists the moves that are under way, first, and those that ended within [`RECENT`].
pub async fn recent(pool: &Database) -> sqlx::Result<RecentMoves> {
    let now: OffsetDateTime = sqlx::query_scalar("SELECT UTC_TIMESTAMP(6)").one(pool).await?;
    let statement = format!(
        "SELECT {COLUMNS} FROM item_moves WHERE ended_at IS NULL OR ended_at > ? \
         ORDER BY ended_at IS NULL DESC, started_at DESC LIMIT {LIST_MAX}"
    );
    Ok(RecentMoves { moves: sqlx::query_as(&statement).bind(now - RECENT).all(pool).await?, now })
}

/// Writes the record of a new move of an item to `target`. The caller holds the item's lock.
///
/// # Errors
/// The database's; a duplicate when a second mover was as quick.
pub async fn begin(pool: &Database, item: ItemId, target: ShardId) -> sqlx::Result<ItemMove> {
    let (source, epoch) = home(pool, item).await?;
    // An epoch that a move was given up with is never used again.
    let epoch = last_epoch(pool, item).await?.max(epoch) + 1;
    let inserted = sqlx::query(
        "INSERT INTO item_moves (item_id, epoch, source, target, state, started_at) \
         VALUES (?, ?, ?, ?, 'copying', UTC_TIMESTAMP(6))",
    )
    .binds((item.get(), epoch, source.get(), target.get()));
    confirmed(pool, answered(inserted.execute(pool))).await?;
    find(pool, item, epoch).await?.ok_or(sqlx::Error::RowNotFound)
}

/// The highest epoch that a move of the item has used; 0 when it never moved.
pub async fn last_epoch(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<u64> {
    let last: Option<u64> =
        sqlx::query_scalar("SELECT MAX(epoch) FROM item_moves WHERE item_id = ?")
            .bind(item.get())
            .one(from)
            .await?;
    Ok(last.unwrap_or_default())
}

/// Notes that the item is closed at its source; `false` unless the move was copying.
///
/// # Errors
/// The database's; it may have been noted.
pub async fn set_closed(pool: &Database, of: &ItemMove) -> sqlx::Result<bool> {
    let set = "UPDATE item_moves SET state = 'closed', closed_at = UTC_TIMESTAMP(6) \
         WHERE item_id = ? AND epoch = ? AND state = 'copying'";
    change_alone(pool, set, of).await
}

/// Changes the record of a move that is closed.
const SET_FLIPPED: &str = "UPDATE item_moves SET state = 'flipped', flipped_at = UTC_TIMESTAMP(6) \
     WHERE item_id = ? AND epoch = ? AND state = 'closed'";

/// Makes the targets the homes of all items together, in the caller's transaction; `false` unless every move
/// was closed: then the transaction must be rolled back.
pub async fn flip_together(
    transaction: &mut MySqlConnection,
    all: &[ItemMove],
) -> sqlx::Result<bool> {
    for of in all {
        if !change(transaction, SET_FLIPPED, of).await? {
            return Ok(false);
        }
        set_home(&mut *transaction, of.item, (of.target, of.epoch)).await?;
    }
    Ok(true)
}

/// Makes the source the home of the item again, under the epoch of the move; `false` when the move
/// was flipped or given up before.
///
/// # Errors
/// The database's; it may have been done.
pub async fn give_up(pool: &Database, of: &ItemMove) -> sqlx::Result<bool> {
    let set = "UPDATE item_moves SET state = 'given_up' \
         WHERE item_id = ? AND epoch = ? AND state IN ('copying', 'closed')";
    set_state_and_home(pool, of, set, of.source).await
}

/// Notes that nothing is left to do for a move that was flipped or given up.
///
/// # Errors
/// The database's; it may have been noted.
pub async fn end(pool: &Database, of: &ItemMove) -> sqlx::Result<bool> {
    let set = "UPDATE item_moves SET state = IF(state = 'flipped', 'done', state), \
         ended_at = UTC_TIMESTAMP(6) \
         WHERE item_id = ? AND epoch = ? AND state IN ('flipped', 'given_up') AND ended_at IS NULL";
    change_alone(pool, set, of).await
}

/// Changes the record and the item's home in one transaction.
async fn set_state_and_home(
    pool: &Database,
    of: &ItemMove,
    set: &str,
    home: ShardId,
) -> sqlx::Result<bool> {
    let work = transact(pool, |transaction| {
        Box::pin(async move {
            if !change(transaction, set, of).await? {
                return Ok(false);
            }
            set_home(&mut **transaction, of.item, (home, of.epoch)).await?;
            Ok(true)
        })
    });
    // Boxed, as the next one, or the futures of all movers would be larger.
    within(TRANSACTION_MAX, Box::pin(work)).await
}

/// Makes `shard` the home of an item that was recovered there, under an epoch that was never used.
///
/// # Errors
/// The database's; it may have been done.
pub async fn place(pool: &Database, item: ItemId, shard: ShardId, epoch: u64) -> sqlx::Result<()> {
    confirmed(pool, answered(set_home(pool, item, (shard, epoch)))).await
}

/// Writes the home of an item, with its epoch.
async fn set_home(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    (shard, epoch): (ShardId, u64),
) -> sqlx::Result<()> {
    let placed = sqlx::query(
        "INSERT INTO item_homes (item_id, shard, epoch) VALUES (?, ?, ?) \
         ON DUPLICATE KEY UPDATE shard = VALUES(shard), epoch = VALUES(epoch)",
    );
    placed.bind(item.get()).bind(shard.get()).bind(epoch).execute(executor).await?;
    Ok(())
}

/// Runs a statement that is a transaction of its own on the record of a move, and returns whether it changed.
async fn change_alone(pool: &Database, statement: &str, of: &ItemMove) -> sqlx::Result<bool> {
    let work = async { change(&mut *answered(pool.acquire()).await?, statement, of).await };
    confirmed(pool, Box::pin(work)).await
}

/// Runs a statement on the record of a move, and returns whether it changed.
async fn change(
    connection: &mut MySqlConnection,
    statement: &str,
    of: &ItemMove,
) -> sqlx::Result<bool> {
    let done =
        sqlx::query(statement).bind(of.item.get()).bind(of.epoch).changed(connection).await?;
    Ok(done == 1)
}

column_type!(MoveState, &str, Self::parse);
from_row!(ItemMove {
    item: "item_id",
    epoch,
    source,
    target,
    state,
    started_at,
    closed_at,
    flipped_at,
    ended_at,
});
