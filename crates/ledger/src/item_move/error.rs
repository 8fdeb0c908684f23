//! Why an item was not moved.

use crate::rows::moves::ItemMove;
use shop_domain::{ItemId, LimitGroupId, ShardId};

/// The reason why an item was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is no such ledger.
    #[error("there is no shard {0}: `seckill shard list` names them")]
    UnknownShard(ShardId),
    /// There is no such item where its home says.
    #[error("there is no item {0}")]
    NoItem(ItemId),
    /// The item lives there already.
    #[error("the item lives in shard {0} already")]
    AtHome(ShardId),
    /// The item shares a limit with others.
    #[error(
        "the item shares a limit with {0} other items, and all of them must live in one shard: `seckill shard move-group` moves them together"
    )]
    Grouped(i64),
    /// The item has orders with other items.
    #[error(
        "{0} orders of the item have lines of other items, and all lines of an order stay in one shard: the item stays where it is"
    )]
    Ordered(i64),
    /// No item was ever in this group.
    #[error("the limit group {0} has no items")]
    EmptyGroup(LimitGroupId),
    /// An item came into a group, or out of it, during the move.
    #[error("the items of the group have changed meanwhile")]
    GroupChanged,
    /// Another mover works on the item.
    #[error(
        "another mover works on the item now: a command, or the service, which ends moves that were broken off"
    )]
    Busy,
    /// A move to another ledger is under way.
    #[error(
        "a move of the item from shard {} to shard {} is under way ({}): end it with --resume, or with --give-up",
        .0.source, .0.target, .0.state.as_str()
    )]
    Elsewhere(Box<ItemMove>),
    /// No move is under way.
    #[error("no move of the item is under way")]
    NoMove,
    /// The two ledgers have other columns.
    #[error(
        "the table `{0}` is not the same in both shards: `seckill migrate` brings each up to date"
    )]
    OtherSchema(&'static str),
    /// The item stays where it was, and sells.
    #[error("the move was given up, and the item sells in shard {home} as before: {why}")]
    GivenUp {
        /// The ledger where it is.
        home: ShardId,
        /// The reason.
        why: String,
        /// Whether another try may do better.
        passes: bool,
    },
    /// The item is too large to be moved within the limits.
    #[error("{0}")]
    TooLarge(String),
    /// The pause would have been too long.
    #[error("the pause would be longer than {0} ms")]
    PauseTooLong(u128),
    /// Both sides were compared and differ.
    #[error("the copy of `{0}` is not like the original")]
    Unlike(&'static str),
    /// The move was flipped, so that it can only be completed.
    #[error("the item lives in shard {0} by now: nothing is left to give up; --resume tidies up")]
    Flipped(ShardId),
    /// The source has no row of the item that this move has closed, so the target may have the only copy.
    #[error(
        "shard {0} has no stock row of this move, so other copies of the item may be the only ones: nothing was given up, and nothing is deleted; `seckill audit` tells where the item is, and `seckill shard recover` brings it back"
    )]
    NotAtSource(ShardId),
    /// A ledger's commits do not reach its replicas as they should: what is copied there may be lost.
    #[error("shard {0} reports a fault of its replication ({1}), so no item moves")]
    Replication(ShardId, &'static str),
    /// The item cannot be recovered.
    #[error("{0}")]
    NotRecovered(String),
    /// Another mover ended the move.
    #[error("another mover has ended this move")]
    Superseded,
    /// A ledger does not answer; the move is under way.
    #[error("a ledger does not answer: {0}")]
    Ledger(#[from] sqlx::Error),
}
