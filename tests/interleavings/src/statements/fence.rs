//! Fences, which no run has.

use super::Conflict;
use crate::sql::{MySqlConnection, Result};
use shop_domain::Purchase;

/// The fence of an item's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub token: u64,
}

pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    _: &Purchase,
    fence: Fence,
) -> Result<std::result::Result<u64, Conflict>> {
    connection.server.send().await?;
    Ok(Ok(fence.token))
}
