//! Requests with a key that have created items, so that a repetition creates none.

use sha2::{Digest, Sha256};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use crate::sql::statement::{Binds, Read, Write};
use shop_domain::{ItemId, RequestKey, UserId};

/// A request that may come again.
#[derive(Clone, Copy, Debug)]
pub struct KeyedRequest<'a> {
    /// The operator who sends it.
    pub user: UserId,
    pub key: &'a RequestKey,
    /// Its body, by which another request with the same key is told.
    pub body: &'a [u8],
}

/// What an earlier request with the same key has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There is no earlier one; this one is noted now.
    None,
    /// An earlier one with the same body has created these items.
    Created(Vec<ItemId>),
    /// An earlier one had another body.
    OtherBody,
}

/// Notes that a request creates items, or finds what an earlier one has created. Waits for an earlier one that runs.
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn note(
    transaction: &mut MySqlConnection,
    request: KeyedRequest<'_>,
    items: &[ItemId],
    now: OffsetDateTime,
) -> sqlx::Result<Earlier> {
    let digest = Sha256::digest(request.body).to_vec();
    let user = request.user.get();
    let key = request.key.as_str();
    let ids: Vec<String> = items.iter().map(ToString::to_string).collect();
    let noted = sqlx::query(
        "INSERT IGNORE INTO item_creations (user_id, request_key, digest, item_ids, created_at) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .binds((user, key, digest.clone(), ids.join(","), now))
    .changed(&mut *transaction)
    .await?;
    if noted == 1 {
        return Ok(Earlier::None);
    }
    // Without a lock: requests that have waited together share one, and to ask for more would be a deadlock.
    let earlier: (Vec<u8>, String) = sqlx::query_as(
        "SELECT digest, item_ids FROM item_creations WHERE user_id = ? AND request_key = ?",
    )
    .binds((user, key))
    .one(transaction)
    .await?;
    if earlier.0 != digest {
        return Ok(Earlier::OtherBody);
    }
    Ok(Earlier::Created(earlier.1.split(',').filter_map(ItemId::parse).collect()))
}
