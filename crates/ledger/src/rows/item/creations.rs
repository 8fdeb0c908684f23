//! Requests with a key that have created items, so that a repetition creates none.

use sha2::{Digest, Sha256};
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::{ItemId, RequestKey, UserId};

/// A request that may come again.
#[derive(Clone, Copy, Debug)]
pub struct KeyedRequest<'a> {
    /// The operator who sends it.
    pub user: UserId,
    pub key: &'a RequestKey,
    /// Its body, by which another request with the same key is told.
    pub body: &'a [u8],
    /// The charset in which its sender reads the body, if named: in another one the same bytes are another request.
    pub charset: Option<&'static str>,
}

impl KeyedRequest<'_> {
    fn digest(&self) -> Vec<u8> {
        let body = Sha256::digest(self.body);
        let Some(charset) = self.charset else { return body.to_vec() };
        Sha256::new_with_prefix(body).chain_update(charset).finalize().to_vec()
    }
}

/// What an earlier request with the same key has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There is no earlier one.
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
    let ids: Vec<String> = items.iter().map(ToString::to_string).collect();
    let noted = sqlx::query(
        "INSERT IGNORE INTO item_creations (user_id, request_key, digest, item_ids, created_at) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .binds((request.user.get(), request.key.as_str(), request.digest(), ids.join(","), now))
    .changed(&mut *transaction)
    .await?;
    if noted == 1 {
        return Ok(Earlier::None);
    }
    // Without a lock: requests that have waited together share one, and to ask for more would be a deadlock.
    match find(transaction, request).await? {
        Earlier::None => Err(sqlx::Error::RowNotFound),
        earlier => Ok(earlier),
    }
}

/// Finds what an earlier request with the same key has created.
pub async fn find(
    executor: impl MySqlExecutor<'_>,
    request: KeyedRequest<'_>,
) -> sqlx::Result<Earlier> {
    let earlier: Option<(Vec<u8>, String)> = sqlx::query_as(
        "SELECT digest, item_ids FROM item_creations WHERE user_id = ? AND request_key = ?",
    )
    .binds((request.user.get(), request.key.as_str()))
    .first(executor)
    .await?;
    Ok(match earlier {
        None => Earlier::None,
        Some((of_body, ids)) if of_body == request.digest() => {
            Earlier::Created(ids.split(',').filter_map(ItemId::parse).collect())
        }
        Some(_) => Earlier::OtherBody,
    })
}
