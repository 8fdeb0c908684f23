//! Fences: the number of the transaction that made a node, above the floor of its kind.

use std::time::Duration;

use zookeeper_client::{Client, Error, MultiReadResult};

use super::Base;
use crate::Fence;
use crate::store::{BackendError, StoreResult};

/// How often raising starts again because somebody else was faster.
const RAISES_MAX: u32 = 10;

/// The lease whose session is used by commands that hold nothing: any lease will do.
pub(super) const ANY_LEASE: Duration = Duration::from_secs(4);

/// The fence of the node that the transaction `made_by` has made.
pub(super) fn fence(made_by: i64, floor: u64) -> StoreResult<u64> {
    let made_by = u64::try_from(made_by).unwrap_or(u64::MAX);
    match made_by.checked_add(floor).filter(|fence| *fence <= Fence::MAX.get()) {
        Some(fence) => Ok(fence),
        None => Err(BackendError::new("no fence is left")),
    }
}

/// The floor, as the kind's node was read. It only ever rises, and is read together with what
/// decides the grant: so a later holder sees what an earlier one has seen.
pub(super) fn floor_of(read: &MultiReadResult) -> StoreResult<u64> {
    match read {
        MultiReadResult::Data { data, .. } => floor(data),
        MultiReadResult::Error { err: Error::NoNode } => Ok(0),
        MultiReadResult::Error { err } => Err(BackendError::of(err.clone())),
        _ => Err(BackendError::new("the server answered something else")),
    }
}

fn floor(data: &[u8]) -> StoreResult<u64> {
    let text = std::str::from_utf8(data).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| BackendError::new("the fence floor is not a number"))
}

/// Where the contenders of a name have their nodes.
pub(super) enum Place {
    /// At these paths.
    Nodes(Vec<String>),
    /// In this directory.
    Directory(String),
}

/// Makes all fences to come higher than `at_least`, also those of contenders whose nodes are there already.
pub(super) async fn raise(base: &Base, place: &Place, at_least: Fence) -> StoreResult<()> {
    let client = base.ensemble.session(ANY_LEASE).await?;
    for _ in 0..RAISES_MAX {
        let (data, stat) = match client.get_data(&base.path).await {
            Err(Error::NoNode) => {
                base.make(&client).await?;
                continue;
            }
            read => read.map_err(BackendError::of)?,
        };
        let floor = floor(&data)?;
        // Writing what is there already tells how far the transactions have come.
        let now = match client.set_data(&base.path, &data, Some(stat.version)).await {
            Err(Error::BadVersion) => continue,
            written => written.map_err(BackendError::of)?,
        };
        let before = before_all(&client, place, now.mzxid).await?;
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let Some(higher) = at_least.get().checked_sub(before).filter(|higher| *higher > floor)
        else {
            return Ok(());
        };
        let data = higher.to_string();
        match client.set_data(&base.path, data.as_bytes(), Some(now.version)).await {
            Err(Error::BadVersion) => {}
            written => return written.map(|_| ()).map_err(BackendError::of),
        }
    }
    Err(BackendError::new("others raised the fence at the same time"))
}

/// A transaction before all that made nodes of a place, or make them from now on: `now` if there are none.
async fn before_all(client: &Client, place: &Place, now: i64) -> StoreResult<i64> {
    let nodes: Vec<String> = match place {
        Place::Nodes(nodes) => nodes.clone(),
        Place::Directory(directory) => match client.list_children(directory).await {
            Err(Error::NoNode) => return Ok(now),
            listed => {
                let names = listed.map_err(BackendError::of)?;
                names.iter().map(|name| format!("{directory}/{name}")).collect()
            }
        },
    };
    let mut before = now;
    for node in nodes {
        let stat = client.check_stat(&node).await.map_err(BackendError::of)?;
        before = stat.map_or(before, |stat| before.min(stat.czxid - 1));
    }
    Ok(before)
}
