//! `read-write` on `etcd`: one queue for readers and writers; readers hold together.
//!
//! **How it works.** It works like `mutex`; the key also contains the role (reader or writer). A
//! reader holds when no writer is ahead of it. Otherwise it watches the nearest writer ahead of it.
//! A writer holds when nobody is ahead of it. A reader that comes after a waiting writer waits for
//! that writer, so neither side starves.
//!
//! **What can go wrong.** It fails as `mutex` does. Besides, a writer that waits behind many
//! readers watches the one just ahead, and asks again each time that this one has left.
//!
//! **When to use it.** Use it when the guarded data are read far more often than written, and a
//! reader must not see them half changed.

use tokio_util::task::TaskTracker;

use super::client::Client;
use super::store::QueueStore;
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, InvalidName, Primitive, ReadWrite};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::ReadWrite,
    kind: "read-write",
    summary: "one queue by create revision; readers hold together, a writer alone",
    ..super::FAIR_MUTEX
};

/// Makes both sides; arguments as for [`mutex::mutex`](super::mutex::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn lock(
    client: &Client,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<ReadWrite, InvalidName> {
    let half = |role| QueueStore::start(client.clone(), key_prefix, role, &CAPABILITIES, tasks);
    Ok(ReadWrite { read: half(QueueRole::Reader)?, write: half(QueueRole::Exclusive)? })
}
