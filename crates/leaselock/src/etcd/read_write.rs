//! `read-write` on `etcd`: one queue for readers and writers; readers hold together.
//!
//! **How it works.** It works like `mutex`; the key also contains the role (reader or writer). A
//! reader holds when no writer is ahead of it. Otherwise it watches the nearest writer ahead of it.
//! A writer holds when nobody is ahead of it. A reader that comes after a waiting writer waits for
//! that writer, so neither side starves.
//!
//! **What can go wrong.** It fails as `mutex` does. Besides, a writer that waits behind many
//! readers is notified of each release, but asks again only once: when all of them have left.
//!
//! **When to use it.** Use it when the guarded data are read far more often than written, and a
//! reader must not see them half changed.

use tokio_util::task::TaskTracker;

use super::client::Client;
use super::queue::{Contender, Keys, Role};
use super::store::{Ahead, QueueStore, Rule};
use crate::{Capabilities, InvalidName, LeasedMutex, Primitive, ReadWrite};

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
    let keys = || Keys::new(key_prefix, CAPABILITIES.kind);
    let read = QueueStore::new(client.clone(), keys()?, Reader);
    let write = QueueStore::new(client.clone(), keys()?, Writer);
    Ok(ReadWrite {
        read: LeasedMutex::start(read, &CAPABILITIES, tasks),
        write: LeasedMutex::start(write, &CAPABILITIES, tasks),
    })
}

struct Reader;

impl Rule for Reader {
    fn ahead<'a>(&self, queue: &'a [Contender], index: usize) -> Option<Ahead<'a>> {
        let nearest =
            queue[..index].iter().rposition(|contender| contender.role == Role::Exclusive)?;
        Some(Ahead { contenders: &queue[nearest..=nearest], until_left: 0 })
    }

    fn role(&self) -> Role {
        Role::Reader
    }

    fn shared(&self) -> bool {
        true
    }
}

struct Writer;

impl Rule for Writer {
    fn ahead<'a>(&self, queue: &'a [Contender], index: usize) -> Option<Ahead<'a>> {
        (index > 0).then(|| Ahead { contenders: &queue[..index], until_left: 0 })
    }
}
