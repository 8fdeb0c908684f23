//! The people whose accounts were deleted: their numbers, and a keyed hash of their subjects at the identity provider.

use std::collections::HashSet;

use sqlx::{MySqlConnection, MySqlExecutor};
use time::PrimitiveDateTime;

use super::sessions::GENERATION_DAYS;
use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read, Write, in_list};
use mysql_connection::{Database, within};
use shop_domain::{ItemId, UserId};

/// Seconds after which each transaction that began before a deletion has ended: several times the longest transaction.
const SETTLED_SECONDS: u32 = 60;
/// People who are due, in one read.
const DUE_MAX: u32 = 20;
/// Items that one statement looks for.
const ITEMS_TOGETHER_MAX: usize = 1_000;
/// Seconds after which a person whose places could not be ended is looked at again.
const AGAIN_SECONDS: u32 = 10;

/// Writes that the account of a user is deleted now.
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn insert(
    transaction: &mut MySqlConnection,
    user: UserId,
    subject_hash: Option<[u8; 32]>,
) -> sqlx::Result<()> {
    let statement = format!(
        "INSERT INTO erased_users (user_id, subject_hash, erased_at, due_at) VALUES \
         (?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL {SETTLED_SECONDS} SECOND) \
         ON DUPLICATE KEY UPDATE subject_hash = COALESCE(VALUES(subject_hash), subject_hash), \
         erased_at = VALUES(erased_at), due_at = VALUES(due_at)"
    );
    let hash = subject_hash.map(Vec::from);
    sqlx::query(&statement).binds((user.get(), hash)).run(transaction).await
}

/// Returns whether the account of a user was deleted.
pub async fn contains(executor: impl MySqlExecutor<'_>, user: UserId) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM erased_users WHERE user_id = ?";
    let found: i64 = sqlx::query_scalar(statement).bind(user.get()).one(executor).await?;
    Ok(found > 0)
}

/// Finds those of some users whose accounts were deleted.
pub async fn among(
    executor: impl MySqlExecutor<'_>,
    users: &[UserId],
) -> sqlx::Result<HashSet<UserId>> {
    let Some((places, users)) = in_list(users) else { return Ok(HashSet::new()) };
    let statement = format!("SELECT user_id FROM erased_users WHERE user_id IN ({places})");
    let query = users.fold(sqlx::query_scalar(&statement), |query, user| query.bind(user.get()));
    let found: Vec<UserId> = query.all(executor).await?;
    Ok(found.into_iter().collect())
}

/// Takes the number of a deleted person out of the table by one of the hashes: the person has come back.
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn take(
    transaction: &mut MySqlConnection,
    hashes: &[[u8; 32]],
) -> sqlx::Result<Option<UserId>> {
    for hash in hashes {
        let find = "SELECT user_id FROM erased_users WHERE subject_hash = ? FOR UPDATE";
        let found: Option<UserId> =
            sqlx::query_scalar(find).bind(hash.to_vec()).first(&mut *transaction).await?;
        if let Some(user) = found {
            let delete = "DELETE FROM erased_users WHERE user_id = ?";
            sqlx::query(delete).bind(user.get()).run(&mut *transaction).await?;
            return Ok(Some(user));
        }
    }
    Ok(None)
}

/// Lists the people who are to be looked at, a few of them: transactions that began before the deletion have ended.
pub(crate) async fn due(pool: &Database) -> sqlx::Result<Vec<UserId>> {
    let statement = format!(
        "SELECT user_id FROM erased_users WHERE due_at <= UTC_TIMESTAMP(6) ORDER BY due_at LIMIT {DUE_MAX}"
    );
    sqlx::query_scalar(&statement).all(pool).await
}

/// Puts a person who is due off for a while, so that the next ones get their turn.
pub(crate) async fn put_off(pool: &Database, user: UserId) -> sqlx::Result<()> {
    let statement = format!(
        "UPDATE erased_users SET due_at = UTC_TIMESTAMP(6) + INTERVAL {AGAIN_SECONDS} SECOND \
         WHERE user_id = ? AND due_at <= UTC_TIMESTAMP(6)"
    );
    sqlx::query(&statement).bind(user.get()).run(pool).await
}

/// Keeps the hash of a person who is due while a sale runs that counts the person, and forgets it after. Then the row
/// stays as long as a token of the person can be valid.
pub(crate) async fn settle(pool: &Database, user: UserId) -> sqlx::Result<()> {
    let last_end = last_end(pool, user).await?;
    let forget = format!(
        "DELETE FROM erased_users WHERE user_id = ? AND due_at <= UTC_TIMESTAMP(6) \
         AND (subject_hash IS NULL OR ? IS NULL) \
         AND erased_at <= UTC_TIMESTAMP(6) - INTERVAL {GENERATION_DAYS} DAY"
    );
    sqlx::query(&forget).binds((user.get(), last_end)).run(pool).await?;
    let keep = format!(
        "UPDATE erased_users SET \
         due_at = IF(? IS NULL OR subject_hash IS NULL, erased_at + INTERVAL {GENERATION_DAYS} DAY, ?), \
         subject_hash = IF(? IS NULL, NULL, subject_hash) \
         WHERE user_id = ? AND due_at <= UTC_TIMESTAMP(6)"
    );
    sqlx::query(&keep).binds((last_end, last_end, last_end, user.get())).run(pool).await
}

/// Reads the end of the last sale that runs and counts the person, by itself or in a group; `None` if none does. By
/// statements of few tables: items, and the counts of groups, may be in different shards.
async fn last_end(pool: &Database, user: UserId) -> sqlx::Result<Option<PrimitiveDateTime>> {
    let own = sqlx::query_scalar(
        "SELECT items.ends_at FROM items STRAIGHT_JOIN buyer_limits \
         ON buyer_limits.item_id = items.id AND buyer_limits.user_id = ? \
         WHERE items.ends_at > UTC_TIMESTAMP(6) ORDER BY items.ends_at DESC LIMIT 1",
    );
    let own = own.bind(user.get()).fetch_optional(pool);
    let mut last: Option<PrimitiveDateTime> = within(LONG_READ_MAX, own).await?;
    let in_groups = sqlx::query_scalar(
        "SELECT limit_group_items.item_id FROM limit_group_items STRAIGHT_JOIN group_limits \
         ON group_limits.group_id = limit_group_items.group_id AND group_limits.user_id = ?",
    );
    let in_groups = in_groups.bind(user.get()).fetch_all(pool);
    let in_groups: Vec<ItemId> = within(LONG_READ_MAX, in_groups).await?;
    for items in in_groups.chunks(ITEMS_TOGETHER_MAX) {
        let Some((places, ids)) = in_list(items) else { break };
        let statement = format!(
            "SELECT ends_at FROM items WHERE id IN ({places}) AND ends_at > UTC_TIMESTAMP(6) \
             ORDER BY ends_at DESC LIMIT 1"
        );
        let query = ids.fold(sqlx::query_scalar(&statement), |query, id| query.bind(id.get()));
        last = last.max(query.first(pool).await?);
    }
    Ok(last)
}
