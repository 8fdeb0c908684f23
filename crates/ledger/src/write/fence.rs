//! Fences: the fencing tokens of an item's lock, compared with each write so that a late holder is
//! refused.

use sqlx::MySqlConnection;

use super::Conflict;
use mysql_connection::statement::{Binds, Read};
use shop_domain::Purchase;

/// The longest name of a counter, as the ledger's column has it.
const BACKEND_LENGTH_MAX: usize = 32;

/// A fencing token with the name of its counter: tokens of different backends cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Names the counter.
    pub backend: &'static str,
    pub token: u64,
}

impl Fence {
    /// Makes a fence of the counter that the ledger calls `backend`.
    #[must_use]
    pub fn new(backend: &'static str, token: u64) -> Self {
        assert!(backend.len() <= BACKEND_LENGTH_MAX, "the fence counter's name does not fit");
        Self { backend, token }
    }
}

/// Raises the accepted fence and counts the write, unless a later fence was accepted before. Answers the number of
/// this write among those under the same counter, from 1 on. The orders keep it, and by it the audit knows the order
/// of the writes.
pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    fence: Fence,
) -> sqlx::Result<Result<u64, Conflict>> {
    assert!(
        !fence.backend.is_empty() && fence.backend.len() <= BACKEND_LENGTH_MAX,
        "a fence names its counter"
    );
    let item = purchase.item.id.get();
    // LAST_INSERT_ID(n) answers n with the statement, which spares a SELECT.
    let raised = sqlx::query(
        "UPDATE fences SET fence = ?, accepted_writes = LAST_INSERT_ID(accepted_writes + 1) \
         WHERE item_id = ? AND backend = ? AND fence <= ?",
    )
    .binds((fence.token, item, fence.backend, fence.token))
    .execute(&mut *connection)
    .await?;
    if raised.rows_affected() == 1 {
        return Ok(Ok(raised.last_insert_id()));
    }
    // The row is missing (the item's first write under this backend) or holds a later token.
    let first = sqlx::query(
        "INSERT IGNORE INTO fences (item_id, backend, fence, accepted_writes) VALUES (?, ?, ?, 1)",
    )
    .binds((item, fence.backend, fence.token))
    .execute(&mut *connection)
    .await?;
    if first.rows_affected() == 1 {
        return Ok(Ok(1));
    }
    let accepted = sqlx::query_scalar("SELECT fence FROM fences WHERE item_id = ? AND backend = ?");
    let accepted: u64 = accepted.binds((item, fence.backend)).one(connection).await?;
    Ok(Err(Conflict::Fenced { accepted }))
}
