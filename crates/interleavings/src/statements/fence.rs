//! Fences, which no run has.

use crate::sql::{MySqlConnection, Result};
use shop_domain::Purchase;

/// The fence of an item's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub token: u64,
}

pub(super) enum FenceResult {
    Accepted { sequence: u64 },
    Late { accepted: u64 },
}

pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    _: &Purchase,
    fence: Fence,
) -> Result<FenceResult> {
    connection.server.send().await?;
    Ok(FenceResult::Accepted { sequence: fence.token })
}
